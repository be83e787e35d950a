// The program as it reproduces a study.
#include "cli/program_fixture.h"

namespace tutti {
namespace {

TEST_F(Program, AStudyEndsWithItsClaimsAndAPageFromItsFolder) {
  const Ended e = run({"reproduce", "rnn", "--quick", "--out", out().string()});
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_NE(e.out.find("confirmed      Two runs of the same command end with the same bits"),
            std::string::npos)
      << e.out;
  EXPECT_NE(e.out.find("confirmed      The GAN trains under every synchronous architecture"),
            std::string::npos)
      << e.out;
  const auto study = nlohmann::json::parse(read_file(out() / "study.json"));
  EXPECT_EQ(study["study"], "rnn");
  EXPECT_TRUE(study["quick"]);
  std::filesystem::remove(out() / "report.html");
  ASSERT_EQ(run({"report", out().string()}).code, 0);
  EXPECT_NE(read_file(out() / "report.html").find("Two runs of the same command"), std::string::npos);
}

TEST_F(Program, AStudyThatNobodyKnowsIsRefused) {
  expect_refused({"reproduce", "alchemy", "--out", out().string()}, "cloud-architectures, mpi-mnist");
}

}  // namespace
}  // namespace tutti
