#include "optim/settings.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tutti::optim {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_rejected(const Settings& settings, const std::string& field) {
  try {
    validate(settings);
    ADD_FAILURE() << "accepted a wrong " << field;
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find(field), std::string::npos) << e.what();
  }
}

TEST(Settings, EveryNameParsesToItself) {
  for (const auto* name :
       {"sgd", "momentum", "nesterov", "adam", "adamw", "adagrad", "rmsprop", "lars", "lamb"}) {
    EXPECT_EQ(name_of(parse_kind(name)), name);
    EXPECT_NO_THROW(validate({.kind = parse_kind(name)}));
  }
}

TEST(Settings, UnknownNameListsTheKnownOnes) {
  try {
    parse_kind("lion");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(),
                 "no optimizer is named 'lion'; there are sgd, momentum, nesterov, adam, adamw, adagrad, "
                 "rmsprop, lars, lamb");
  }
}

TEST(Settings, WrongNumbersNameTheirField) {
  for (const double bad : {-0.1, kNaN, kInfinity}) {
    expect_rejected({.lr = bad}, "lr");
    expect_rejected({.weight_decay = bad}, "weight_decay");
    expect_rejected({.kind = Kind::momentum, .momentum = bad}, "momentum");
    expect_rejected({.kind = Kind::adam, .beta1 = bad}, "beta1");
    expect_rejected({.kind = Kind::adamw, .beta2 = bad}, "beta2");
    expect_rejected({.kind = Kind::adam, .epsilon = bad}, "epsilon");
    expect_rejected({.kind = Kind::rmsprop, .momentum = bad}, "momentum");
    expect_rejected({.kind = Kind::rmsprop, .alpha = bad}, "alpha");
    expect_rejected({.kind = Kind::rmsprop, .epsilon = bad}, "epsilon");
    expect_rejected({.kind = Kind::lars, .trust = bad}, "trust");
    expect_rejected({.kind = Kind::lamb, .beta2 = bad}, "beta2");
    expect_rejected({.kind = Kind::lamb, .epsilon = bad}, "epsilon");
  }
  expect_rejected({.kind = Kind::momentum, .momentum = 1}, "momentum");
  for (const Kind without : {Kind::sgd, Kind::adam, Kind::adamw, Kind::adagrad, Kind::lamb}) {
    expect_rejected({.kind = without, .momentum = 0.9}, "left out with " + std::string(name_of(without)));
  }
  expect_rejected({.kind = Kind::nesterov, .momentum = 0}, "momentum");
  expect_rejected({.kind = Kind::lars, .trust = 0}, "trust");
  expect_rejected({.kind = Kind::adam, .beta2 = 1}, "beta2");
}

TEST(Settings, FieldsOfOtherKindsAreNotLookedAt) {
  EXPECT_NO_THROW(validate({.kind = Kind::sgd, .beta1 = kNaN, .alpha = 7}));
}

TEST(Settings, RmspropHasNoMomentumUnlessAsked) {
  EXPECT_EQ(momentum_of({.kind = Kind::rmsprop}), 0.0);
  EXPECT_EQ(momentum_of({.kind = Kind::rmsprop, .momentum = 0.5}), 0.5);
  EXPECT_EQ(momentum_of({.kind = Kind::lars}), 0.9);
}

TEST(Settings, OnlyAdamwAndLambDecayUnasked) {
  EXPECT_EQ(weight_decay_of({.kind = Kind::adam}), 0.0);
  EXPECT_EQ(weight_decay_of({.kind = Kind::adamw}), 0.01);
  EXPECT_EQ(weight_decay_of({.kind = Kind::lamb}), 0.01);
  EXPECT_EQ(weight_decay_of({.kind = Kind::adamw, .weight_decay = 0.0}), 0.0);
}

}  // namespace
}  // namespace tutti::optim
