// What a stranger sends before anything is known of him, and what one that knows the secret might.
#include <cstring>

#include "base/fuzz_input.h"
#include "net/auth.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  using namespace tutti::net;
  static const Secret secret = make_secret();
  static const Credentials ours(secret, {.job = make_secret(), .wire = Wire::auth});
  const auto take = [&](auto& into) {
    const std::size_t n = std::min(size, sizeof into);
    std::memcpy(&into, data, n);
    data += n;
    size -= n;
  };
  Hello hello;
  take(hello);
  (void)refuse(hello);
  const auto challenge = answer(ours, hello, Rank{hello.to});
  Challenge theirs;
  take(theirs);
  (void)refused_by(theirs);
  (void)disagreement(terms_of(secret, hello, theirs), ours.terms);
  TUTTI_CHECK(!respond(secret, hello, theirs), "nobody guesses a proof");
  Response response;
  take(response);
  TUTTI_CHECK(!challenge || !accept(secret, hello, *challenge, response), "nobody guesses a proof");
  // A true handshake on which the rest of the input is laid: accepted only where it changes nothing.
  const Hello mine = make_hello(Rank{1}, Rank{0});
  auto true_challenge = answer(ours, mine, Rank{0});
  TUTTI_CHECK(true_challenge, "our own hello");
  Challenge laid_on{};
  take(laid_on);
  auto* bytes = reinterpret_cast<std::uint8_t*>(&*true_challenge);
  bool changed = false;
  for (std::size_t i = 0; i < sizeof laid_on; ++i) {
    const auto mask = reinterpret_cast<const std::uint8_t*>(&laid_on)[i];
    bytes[i] ^= mask;
    changed = changed || mask != 0;
  }
  const auto reply = respond(secret, mine, *true_challenge);
  TUTTI_CHECK(reply.has_value() == !changed, "a challenge counts as it was made");
  TUTTI_CHECK(!reply || accept(secret, mine, *true_challenge, *reply), "who knows the secret is let in");
  TUTTI_CHECK(!reply || terms_of(secret, mine, *true_challenge) == ours.terms, "and learns the terms");
  TUTTI_CHECK(keys_of_caller(secret, mine, *true_challenge).sending ==
                  keys_of_listener(secret, mine, *true_challenge).receiving,
              "both have one key");
  return 0;
}
