#include "net/auth.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace tutti::net {
namespace {

const Secret kSecret = make_secret();

TEST(Auth, EverySecretIsAnotherOne) {
  std::set<Secret> drawn = {Secret{}};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(drawn.insert(make_secret()).second);
}

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

Challenge as_received(const Refusal& refusal) {
  const auto [nonce, proof] = std::bit_cast<std::array<Digest, 2>>(refusal);
  return {nonce, proof, {}};
}

TEST(Auth, HelloOfAnotherVersionIsRefusedAndBothSidesKnowWhy) {
  Hello hello = make_hello(Rank{3}, Rank{1});
  EXPECT_FALSE(refuse(hello));
  hello.version = kProtocolVersion + 1;
  ASSERT_TRUE(refuse(hello));
  EXPECT_EQ(refuse(hello)->version, kProtocolVersion);
  Refusal from_another;
  from_another.version = kProtocolVersion + 1;
  EXPECT_EQ(refused_by(as_received(from_another)), kProtocolVersion + 1);
}

TEST(Auth, RefusalIsForOurOwnOnlyAndSaysNothingButTheVersion) {
  Hello stranger = make_hello(Rank{3}, Rank{1});
  stranger.version = kProtocolVersion + 1;
  stranger.magic[0] = 'G';
  EXPECT_FALSE(refuse(stranger));
  // Whoever asks, and whatever else the hello says: the same bytes.
  Hello one = make_hello(Rank{3}, Rank{1});
  Hello other = make_hello(Rank{0}, Rank{7});
  one.version = other.version = kProtocolVersion + 1;
  EXPECT_EQ(refuse(one), refuse(other));
}

TEST(Auth, RefusalIsNoChallengeAndAChallengeNoRefusal) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  // A program from before there were refusals: it sees a listener that does not know the secret, and stops.
  EXPECT_FALSE(respond(kSecret, hello, as_received(Refusal{})));
  EXPECT_FALSE(refused_by(*answer(kSecret, hello, Rank{1})));
  EXPECT_FALSE(refused_by(as_received(Refusal{})));  // our own version is none to be refused by
  Refusal with_more;
  with_more.version = kProtocolVersion + 1;
  with_more.zeros[51] = std::byte{1};
  EXPECT_FALSE(refused_by(as_received(with_more)));
}

const Terms kTerms{.job = make_secret(), .wire = Wire::auth};

TEST(Auth, CallerLearnsTheListenersTermsAndAStrangerDoesNot) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  const auto challenge = answer({kSecret, kTerms}, hello, Rank{1});
  ASSERT_TRUE(respond(kSecret, hello, *challenge));
  EXPECT_EQ(terms_of(kSecret, hello, *challenge), kTerms);
  EXPECT_NE(terms_of(make_secret(), hello, *challenge), kTerms);
  // Whoever asks twice cannot tell that both answers hold the same.
  const auto again = answer({kSecret, kTerms}, hello, Rank{1});
  EXPECT_NE(challenge->terms.job, kTerms.job);
  EXPECT_NE(challenge->terms.job, again->terms.job);
}

TEST(Auth, TermsCannotBeChangedOnTheWay) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  auto challenge = *answer({kSecret, kTerms}, hello, Rank{1});
  const auto response = respond(kSecret, hello, challenge);
  challenge.terms.wire = Wire::plain;
  EXPECT_FALSE(respond(kSecret, hello, challenge));
  EXPECT_FALSE(accept(kSecret, hello, challenge, *response));
  challenge = *answer({kSecret, kTerms}, hello, Rank{1});
  challenge.terms.job[0] ^= std::byte{1};
  EXPECT_FALSE(respond(kSecret, hello, challenge));
}

TEST(Auth, TermsThatDifferAreNamedWithBothValues) {
  EXPECT_EQ(disagreement(kTerms, kTerms), std::nullopt);
  Terms other = kTerms;
  other.job = make_secret();
  EXPECT_EQ(disagreement(kTerms, other),
            fmt::format("the job is {} there and {} here", to_hex(kTerms.job), to_hex(other.job)));
  other.job = {};  // not said
  EXPECT_EQ(disagreement(kTerms, other), std::nullopt);
  EXPECT_EQ(disagreement(other, kTerms), std::nullopt);
  other.wire = Wire::encrypt;
  EXPECT_EQ(disagreement(kTerms, other), "--wire is auth there and encrypt here");
}

TEST(Auth, BothEndsMakeTheSameKeysOfTheirConnectionAndNoOther) {
  const Hello hello = make_hello(Rank{3}, Rank{1});
  std::set<Digest> keys;
  for (int connection = 0; connection < 3; ++connection) {  // even where a hello is replayed
    const auto challenge = *answer(kSecret, hello, Rank{1});
    const auto caller = keys_of_caller(kSecret, hello, challenge);
    const auto listener = keys_of_listener(kSecret, hello, challenge);
    EXPECT_EQ(caller.sending, listener.receiving);
    EXPECT_EQ(caller.receiving, listener.sending);
    EXPECT_TRUE(keys.insert(caller.sending).second);
    EXPECT_TRUE(keys.insert(caller.receiving).second);
    EXPECT_TRUE(keys.insert(keys_of_caller(make_secret(), hello, challenge).sending).second);
  }
}

}  // namespace
}  // namespace tutti::net
