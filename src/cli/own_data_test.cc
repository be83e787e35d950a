// The program with data and networks that its user brings.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "cli/program_fixture.h"
#include "data/npy_fixture.h"

namespace tutti {
namespace {

class OwnData : public Program {
 protected:
  // 150 flowers of three kinds, as in Fisher's table: four measures that tell them apart, mostly.
  std::string flowers() const {
    std::string csv = "sepal length,sepal width,petal length,petal width,species\n";
    for (int i = 0; i < 150; ++i) {
      const int kind = i / 50;
      const auto noise = [i](int salt) {
        return std::sin(static_cast<double>(i * (salt + 3)) * 12.9898) * 0.3;
      };
      csv += fmt::format("{:.1f},{:.1f},{:.1f},{:.1f},{}\n", 5.0 + 0.8 * kind + noise(1),
                         3.4 - 0.3 * kind + noise(2), 1.5 + 2.0 * kind + noise(3),
                         0.2 + 0.9 * kind + noise(4) / 2,
                         std::array{"setosa", "versicolor", "virginica"}[static_cast<std::size_t>(kind)]);
    }
    return put("iris.csv", csv);
  }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(root() / name) << text;
    return (root() / name).string();
  }
  std::vector<std::string> train_table(const std::string& file, const std::vector<std::string>& more) const {
    return train_mlp("csv:" + file, more);
  }
  std::vector<std::string> train_mlp(const std::string& data, std::vector<std::string> more) const {
    std::vector<std::string> all = {"train",    "--data",    data,   "--model", "mlp",
                                    "--epochs", "20",        "--lr", "0.01",    "--batch",
                                    "16",       "--threads", "1",    "--out",   out().string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(OwnData, ATableIsLearnedByOneCommandUnderAnyStrategy) {
  const auto file = flowers();
  for (const char* strategy : {"allreduce", "ps-sync"}) {
    const Ended e = run(
        train_table(file, {"--label", "species", "--strategy", strategy, "--workers", "2", "--overwrite"}));
    ASSERT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    EXPECT_GT(s["test_accuracy"], 0.9) << strategy;
    const auto shown = fmt::format("; test accuracy {:.4f}", s["test_accuracy"].get<double>());
    EXPECT_NE(e.out.find(shown), std::string::npos) << shown << " is not in " << e.out;
    EXPECT_EQ(s["config"]["inputs"], 4);
    EXPECT_EQ(s["config"]["classes"], 3);
    EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]);
  }
}

TEST_F(OwnData, ArraysAreLearnedByOneCommandUnderAnyStrategy) {
  std::vector<float> measures;
  std::vector<std::int64_t> kinds;
  for (int i = 0; i < 150; ++i) {
    const int kind = i % 3;
    kinds.push_back(kind);
    for (int j = 0; j < 4; ++j) {
      const double noise = std::sin(static_cast<double>(i * (j + 3)) * 12.9898) * 0.3;
      measures.push_back(static_cast<float>((kind - 1) * (j + 1) * 0.5 + noise));
    }
  }
  const std::string data = "npy:" + put("x.npy", data::fixture::npy("<f4", "150, 4", measures)) + "," +
                           put("y.npy", data::fixture::npy("<i8", "150,", kinds));
  for (const char* strategy : {"allreduce", "ps-sync"}) {
    const Ended e = run(train_mlp(data, {"--strategy", strategy, "--workers", "2", "--overwrite"}));
    ASSERT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    EXPECT_GT(s["test_accuracy"], 0.9) << strategy;
    EXPECT_EQ(s["config"]["inputs"], 4);
    EXPECT_EQ(s["config"]["classes"], 3);
    EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]);
  }
}

TEST_F(OwnData, BadArraysAreRefusedWithFileAndPlace) {
  const auto x = put("x.npy", data::fixture::npy<float>("<f4", "8, 2", std::vector<float>(16)));
  const auto y = put("y.npy", data::fixture::npy<std::int64_t>("<i8", "7,", {0, 1, 0, 1, 0, 1, 0}));
  expect_refused(train_mlp("npy:" + x + "," + y, {}),
                 "y.npy: byte 0: it must have one number for each of the 8 samples of ");
  expect_refused(train_mlp("npy:" + x, {}), "names one file; it wants two, npy:X.npy,Y.npy");
  expect_refused(train_mlp("npy:" + x + "," + (root() / "none.npy").string(), {}), "none.npy");
  expect_refused(train_mlp("npy:" + x + "," + put("text.npy", "0,1,0"), {}),
                 "text.npy: byte 0: this is no .npy file");
}

TEST_F(OwnData, ARunGoesOnWithItsTableAndRefusesAnother) {
  const auto file = flowers();
  ASSERT_EQ(run(train_table(file, {"--label", "species"})).code, 0);
  const auto whole = summary()["parameters_sha256"];
  remove_tree(out());
  auto half = train_table(file, {"--label", "species"});
  *(std::ranges::find(half, "20")) = "10";
  ASSERT_EQ(run(half).code, 0);
  Ended e = run({"train", "--resume", out().string(), "--epochs", "20"});
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["parameters_sha256"], whole);
  for (const auto& [flag, other] :
       {std::pair{"--features", "sepal width,sepal length,petal length,petal width"},
        {"--test-share", "0.4"}}) {
    e = run({"train", "--resume", out().string(), "--epochs", "30", flag, other});
    EXPECT_EQ(e.code, 2) << flag;
    EXPECT_NE(e.error.find("that run has "), std::string::npos) << flag << ": " << e.error;
  }
  std::ofstream(file, std::ios::app) << "5,3,1,0.2,setosa\n";
  e = run({"train", "--resume", out().string(), "--epochs", "30"});
  EXPECT_EQ(e.code, 2) << e.error;
}

TEST_F(OwnData, BadTablesAreRefusedWithFileLineAndColumn) {
  const auto file = flowers();
  const auto refused = [&](const std::string& f, const std::vector<std::string>& more,
                           const std::string& words) { expect_refused(train_table(f, more), words); };
  refused(file, {"--label", "kind"}, "iris.csv: line 1: there is no column 'kind'; there are: sepal length");
  refused(file, {"--features", "sepal length,height"}, "there is no column 'height'");
  refused(put("one.csv", "a,b\n1,x\n2,x\n3,x\n4,x\n5,x\n6,x\n7,x\n8,x\n9,x\n"), {},
          "one.csv: column b: all rows have the label 'x'");
  refused(put("short.csv", "a,b\n1,x\n2\n"), {}, "short.csv: line 3: it has 1 cells, the header 2");
  refused((root() / "none.csv").string(), {}, "none.csv");
  refused(file, {"--test-share", "1"}, "--test-share must be above 0 and below 1");
  expect_refused(train_into_out({"--model", "mnist-cnn"}, ("csv:" + file).c_str()),
                 "cannot be given as image");
  expect_refused(train_into_out({"--label", "species"}),
                 "--label must be left out unless --data is csv:FILE");
}

// A network whose file says that a far newer torch has written it, with checksums that fit.
std::string of_newer_torch(std::string archive) {
  const auto replace = [&](std::size_t at, std::string_view by) { archive.replace(at, by.size(), by); };
  const auto name = archive.find("net/.data/version");
  EXPECT_NE(name, std::string::npos);
  replace(archive.find("10\n", name), "99\n");
  const std::string checksum_of_10 = "\x58\x89\x7b\xe5";
  const std::string checksum_of_99 = "\xa9\x63\xaa\x3a";
  for (auto at = archive.find(checksum_of_10); at != std::string::npos; at = archive.find(checksum_of_10))
    replace(at, checksum_of_99);
  return archive;
}

TEST_F(OwnData, BadNetworksAreRefusedWithFileAndReason) {
  const auto file = flowers();
  const auto refused = [&](const std::string& network, const std::string& words) {
    auto arguments = train_table(file, {"--label", "species"});
    *std::ranges::find(arguments, "mlp") = network;
    expect_refused(arguments, network.substr(network.find(':') + 1) + ": " + words);
  };
  refused("script:" + put("text.pt", "no network"), "this cannot be loaded as TorchScript");
  refused("script:" + put("half.pt", read_file(TUTTI_TEST_NET).substr(0, 4000)),
          "this cannot be loaded as TorchScript");
  refused("script:" + put("newer.pt", of_newer_torch(read_file(TUTTI_TEST_NET))),
          "this was saved by a torch that is newer than libtorch ");
  refused("plugin:" + put("text.so", "no library"), "this cannot be loaded as a shared library");
  refused(std::string("plugin:") + TUTTI_TEST_PLUGIN_OF_OTHER_TUTTI,
          "this was built for version 0 of tutti's plugins");
  refused(std::string("plugin:") + TUTTI_TEST_PLUGIN_OF_OTHER_TORCH, "this was built with libtorch 9.9.9");
}

}  // namespace
}  // namespace tutti
