// A server as a rank of its own, on a thread of a worker's process.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "base/process.h"

namespace tutti::ps {

class ServerThread {
 public:
  // `serve` joins the others at the server's rank, and returns when the last worker has said goodbye.
  explicit ServerThread(std::function<void()> serve)
      : thread_([this, serve = std::move(serve)] {
          name_thread("server");
          try {
            serve();
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  ~ServerThread() {
    if (thread_.joinable()) thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  // Until it has ended. Throws what ended it.
  void wait() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tutti::ps
