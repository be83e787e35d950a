#include "net/auth.h"

#include <gtest/gtest.h>

namespace tutti::net {
namespace {

const Secret kSecret = make_secret();

TEST(Auth, BothSidesConvinceEachOther) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  const auto challenge = answer(kSecret, hello, Rank{1});
  ASSERT_TRUE(challenge);
  const auto response = respond(kSecret, hello, *challenge);
  ASSERT_TRUE(response);
  EXPECT_TRUE(accept(kSecret, hello, *challenge, *response));
}

TEST(Auth, ListenerWithAnotherSecretIsRefused) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  EXPECT_FALSE(respond(kSecret, hello, *answer(make_secret(), hello, Rank{1})));
}

TEST(Auth, CallerWithAnotherSecretIsRefused) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  const Secret other = make_secret();
  const auto genuine = answer(kSecret, hello, Rank{1});
  const auto forged = answer(other, hello, Rank{1});
  EXPECT_FALSE(accept(kSecret, hello, *genuine, *respond(other, hello, *forged)));
}

TEST(Auth, ProofOfOneConnectionIsNoneForAnother) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  const auto first = answer(kSecret, hello, Rank{1});
  const auto second = answer(kSecret, hello, Rank{1});  // the same hello, replayed: a fresh nonce
  EXPECT_FALSE(accept(kSecret, hello, *second, *respond(kSecret, hello, *first)));
}

TEST(Auth, ListenersProofCannotBeReflected) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  const auto challenge = answer(kSecret, hello, Rank{1});
  EXPECT_FALSE(accept(kSecret, hello, *challenge, Response{challenge->proof}));
}

TEST(Auth, ClaimingAnotherRankBreaksTheProof) {
  Hello hello = make_hello(Rank{3}, Rank{1});
  const auto challenge = answer(kSecret, hello, Rank{1});
  const auto response = respond(kSecret, hello, *challenge);
  hello.from = 2;
  EXPECT_FALSE(accept(kSecret, hello, *challenge, *response));
}

TEST(Auth, ForeignHelloGetsNoAnswer) {
  Hello hello = make_hello(Rank{3}, Rank{1});
  EXPECT_FALSE(answer(kSecret, hello, Rank{2}));
  hello.version = 99;
  EXPECT_FALSE(answer(kSecret, hello, Rank{1}));
  hello = make_hello(Rank{3}, Rank{1});
  hello.magic[0] = 'G';
  EXPECT_FALSE(answer(kSecret, hello, Rank{1}));
}

}  // namespace
}  // namespace tutti::net
