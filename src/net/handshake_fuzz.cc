// What a stranger sends before anything is known of him, and what one that knows the secret might.
#include <cstring>

#include "base/fuzz_input.h"
#include "net/auth.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  using namespace tutti::net;
  static const Secret secret = make_secret();
  const auto take = [&](auto& into) {
    const std::size_t n = std::min(size, sizeof into);
    std::memcpy(&into, data, n);
    data += n;
    size -= n;
  };
  Hello hello;
  take(hello);
  (void)refuse(hello);
  const auto challenge = answer(secret, hello, Rank{hello.to});
  Challenge theirs;
  take(theirs);
  (void)refused_by(theirs);
  TUTTI_CHECK(!respond(secret, hello, theirs), "nobody guesses a proof");
  Response response;
  take(response);
  TUTTI_CHECK(!challenge || !accept(secret, hello, *challenge, response), "nobody guesses a proof");
  return 0;
}
