#include "observe/gpus.h"

#include <gtest/gtest.h>

namespace tutti::observe {
namespace {

TEST(Gpus, WithoutTheLibraryThereAreNone) {
  EXPECT_EQ(Gpus("libno-such-library.so.1").sample(), nlohmann::json::array());
}

TEST(Gpus, ALibraryOfSomethingElseIsNoError) {
  EXPECT_EQ(Gpus("libm.so.6").sample(), nlohmann::json::array());
}

TEST(Gpus, EachSaysHowBusyItIsAndWhatItCannotSayIsNull) {
  EXPECT_EQ(Gpus(TUTTI_FAKE_NVML).sample(),
            nlohmann::json::parse(R"([{"utilisation": 0.93, "memory_bytes": 40},
                                      {"utilisation": null, "memory_bytes": 0}])"));
}

}  // namespace
}  // namespace tutti::observe
