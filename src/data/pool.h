// Threads that share a work of many equal parts.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::data {

// Any number of threads may call it; one work is done at a time.
class Pool {
 public:
  // So many threads work, whoever calls for_each() being one of them.
  Pool(std::size_t threads, const std::string& name);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Calls part(i) for each i below `count` and blocks until all have returned. Once one throws, no other
  // begins; of what they throw, that of the smallest i is rethrown, whichever came first.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& part);

 private:
  void take_parts(std::unique_lock<std::mutex>& lock);

  std::mutex turn_;  // held by whose work it is

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::function<void(std::size_t)>* part_ = nullptr;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  std::size_t busy_ = 0;  // parts that have begun and not returned
  std::exception_ptr failure_;
  std::size_t failed_ = 0;  // the part that it is of
  bool stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace tutti::data
