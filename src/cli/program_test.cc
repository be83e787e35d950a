// The program as people run it: exit codes, what it says, what it leaves behind. What happens to it from
// outside is in disturbed_test.cc.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "cli/program_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

// Each strategy over each transport, each number of workers over each; all together are tried as threads.
TEST_F(Program, ReplicasEndEqualUnderEveryStrategyWorldAndTransport) {
  const std::vector<std::array<const char*, 3>> cases = {{"ring", "2", "shm"},
                                                         {"ring", "4", "tcp"},
                                                         {"allreduce", "3", "shm"},
                                                         {"allreduce", "2", "tcp"},
                                                         {"reduce-broadcast", "4", "shm"},
                                                         {"reduce-broadcast", "3", "tcp"}};
  for (const auto& [strategy, workers, transport] : cases) {
    const Ended e = run(train({"--strategy", strategy, "--workers", workers, "--transport", transport,
                               "--steps", "4", "--no-evaluate"}));
    ASSERT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    EXPECT_EQ(s["replicas_sha256"].size(), static_cast<std::size_t>(std::stoi(workers)));
    for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]) << strategy << workers;
  }
}

TEST_F(Program, ResumeAfterAKillEndsWithTheSameBits) {
  const std::vector<std::string> flags = {
      "--strategy", "allreduce",     "--workers",          "2", "--steps", "90", "--seed",
      "9",          "--no-evaluate", "--checkpoint-every", "2"};
  ASSERT_EQ(run(train(flags)).code, 0);
  const auto undisturbed = summary()["parameters_sha256"];
  remove_tree(out());
  Running running(root(), train(flags));
  wait_until([&] { return checkpoint::latest(out()).has_value(); });
  ::kill(running.pid(), SIGKILL);
  running.wait();
  ASSERT_LT(checkpoint::latest(out())->step, 90) << "it had ended before it was killed";
  const Ended e = run({"train", "--resume", out().string()});
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["parameters_sha256"], undisturbed);
}

TEST_F(Program, ServersGiveTheBitsOfAnAllReduceHoweverTheyAreArranged) {
  const std::vector<std::string> common = {"--workers", "2", "--steps", "6", "--no-evaluate"};
  const auto digest = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), common.begin(), common.end());
    const Ended e = run(train(flags));
    EXPECT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]);
    return s["parameters_sha256"].get<std::string>();
  };
  const auto expected = digest({"--strategy", "allreduce"});
  EXPECT_EQ(digest({"--strategy", "ps-sync"}), expected);
  EXPECT_EQ(summary()["servers"], 1);
  EXPECT_GT(summary()["bytes_sent_per_server"].get<std::int64_t>(), 1000);
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--servers", "3", "--transport", "tcp"}), expected);
  for (const char* wire : {"auth", "encrypt"}) {
    EXPECT_EQ(digest({"--strategy", "ps-sync", "--servers", "3", "--transport", "tcp", "--wire", wire}),
              expected);
    EXPECT_EQ(summary()["config"]["wire"], wire);
  }
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--colocate"}), expected);
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--colocate", "--transport", "tcp"}), expected);
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--local-aggregation", "--transport", "tcp"}), expected);
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--server-role", "sum", "--servers", "2"}), expected);
}

TEST_F(Program, LooseStrategiesEndWithEqualReplicas) {
  for (const char* strategy : {"ps-async", "ps-ssp", "hogwild", "easgd", "local-sgd"}) {
    const Ended e = run(train({"--strategy", strategy, "--workers", "3", "--steps", "6", "--no-evaluate"}));
    EXPECT_EQ(e.code, 0) << strategy << e.error;
    const auto s = summary();
    ASSERT_EQ(s["replicas_sha256"].size(), 3U);
    for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]) << strategy;
  }
}

TEST_F(Program, ResumedServersEndWithTheSameBits) {
  const auto resumed_as_undisturbed = [&](const std::vector<std::string>& flags, const char* data) {
    const auto with_steps = [&](const char* steps) {
      auto all = flags;
      all.insert(all.end(), {"--workers", "2", "--steps", steps, "--no-evaluate"});
      return train(all, data);
    };
    ASSERT_EQ(run(with_steps("12")).code, 0);
    const auto undisturbed = summary()["parameters_sha256"];
    remove_tree(out());
    ASSERT_EQ(run(with_steps("5")).code, 0);
    const Ended e = run({"train", "--resume", out().string(), "--steps", "12"});
    ASSERT_EQ(e.code, 0) << e.error;
    EXPECT_EQ(summary()["parameters_sha256"], undisturbed) << flags[1];
  };
  resumed_as_undisturbed({"--strategy", "ps-sync", "--servers", "2"}, "mnist");
  resumed_as_undisturbed({"--strategy", "hybrid", "--model", "wide-deep", "--optimizer", "adam"},
                         "synthetic");
}

TEST_F(Program, HybridGivesTheBitsOfServersWithRowsAndSaysWhatGoesWhere) {
  const auto digest = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--model", "wide-deep", "--workers", "2", "--steps", "60", "--optimizer", "adagrad"});
    const Ended e = run(train(flags, "synthetic"));
    EXPECT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]);
    return s["parameters_sha256"].get<std::string>();
  };
  const auto expected = digest({"--strategy", "ps-sync"});
  EXPECT_EQ(digest({"--strategy", "hybrid"}), expected);
  std::map<std::string, std::string> routes;
  const auto hybrid = summary();
  for (const auto& r : hybrid["routes"]) routes[r["parameter"]] = r["route"];
  EXPECT_EQ(routes.size(), 8U);
  EXPECT_EQ(routes["deep.weight"], "servers");
  EXPECT_EQ(routes["dense1.weight"], "all-reduce");
  EXPECT_EQ(digest({"--strategy", "hybrid", "--colocate", "--transport", "tcp"}), expected);
  EXPECT_EQ(digest({"--strategy", "ps-sync", "--servers", "2", "--partitions", "7"}), expected);
  // Where rows lie may change in mid-run; that changes no bit of them.
  EXPECT_EQ(digest({"--strategy", "hybrid", "--servers", "2", "--partitions", "auto"}), expected);
  const auto s = summary();
  EXPECT_EQ(s["partition_search"]["trials"].size(), 4U);
  EXPECT_EQ(s["partition_search"]["chosen"], s["partitions"]);
}

TEST_F(Program, PacedRunsSaySoAndKeepTheBoundOfStaleness) {
  const Ended e = run(train({"--strategy", "ps-ssp", "--staleness", "2", "--workers", "3", "--pace", "4",
                             "--slow", "1:5", "--steps", "20"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_EQ(s["max_lead"], 2) << "the slow one takes five times as long: the others come up against it";
  EXPECT_EQ(s["pace_ms"], 4.0);
  EXPECT_EQ(s["slow"], "1:5");
  EXPECT_TRUE(s["train_loss"].is_null());
  EXPECT_NE(e.out.find("paced at 4 ms, slowed 1:5"), std::string::npos) << e.out;
}

TEST_F(Program, BackupWorkersDoNotWaitForALateOneAtTheEndOfAnEpoch) {
  const Ended e = run(train({"--strategy", "ps-sync", "--backup-workers", "1", "--workers", "3", "--slow",
                             "2:4", "--epochs", "2"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_LT(s["steps_per_worker"][2], s["steps_per_worker"][0]);
  EXPECT_GT(s["pieces_dropped"].get<int>(), 0);
  for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]);
}

TEST_F(Program, ServersThatDoNotFitAreRefused) {
  expect_refused(train({"--strategy", "allreduce", "--servers", "2"}), "--servers 2");
  expect_refused(train({"--strategy", "ps-sync", "--servers", "0"}), "--servers");
  expect_refused(train({"--strategy", "ps-sync", "--servers", "1000000"}), "--servers");
  expect_refused(train({"--strategy", "ps-ssp", "--staleness", "-1"}), "--staleness");
  expect_refused(train({"--strategy", "ps-sync", "--workers", "2", "--backup-workers", "2"}),
                 "--backup-workers");
  expect_refused(train({"--strategy", "ps-async", "--workers", "2", "--backup-workers", "1"}), "ps-sync");
  expect_refused(train({"--strategy", "ps-sync", "--workers", "2", "--servers", "3", "--colocate"}),
                 "--colocate");
  expect_refused(train({"--strategy", "hogwild", "--workers", "2", "--transport", "tcp"}), "shm");
  expect_refused(
      train({"--strategy", "ps-sync", "--workers", "2", "--backup-workers", "1", "--server-role", "sum"}),
      "--server-role");
  expect_refused(train({"--slow", "7:2"}), "--slow");
  expect_refused(train({"--slow", "0:0.5"}), "--slow");
}

TEST_F(Program, BadInputIsOneLineAndExitCode2) {
  expect_refused(train({"--model", "nonsense"}), "nonsense");
  expect_refused(train({"--strategy", "nonsense"}), "nonsense");
  expect_refused(train({"--workers", "0"}), "--workers");
  expect_refused(train({"--workers", "many"}), "--workers");
  expect_refused({"train", "--data", "mnist", "--batch", "2001", "--out", out().string()},
                 "larger than the data");
  expect_refused(train({"--nonsense"}), "--nonsense");
  expect_refused({"train", "--data", "mnist", "--out", "/proc/nothing"}, "/proc/nothing");
  expect_refused({"nonsense"}, "nonsense");
  expect_refused({"ckpt", "show", "/no/such/checkpoint"}, "/no/such/checkpoint");
  expect_refused({"bench", "allreduce", "--ranks", "0"}, "--ranks");
  expect_refused({"worker", "--job-fd", "77"}, "77");
  expect_refused({"worker", "--job-fd", "2"}, "2");
  expect_refused(train({"--steps", "0"}), "--steps");
  expect_refused(train({"--seed", "-1"}), "--seed");
  expect_refused(train({"--global-batch", "32"}), "--global-batch");  // train() says --batch
  expect_refused({"train", "--data", "mnist", "--out", "runs/\xff"}, "--out");
  expect_refused({"compare", "--data", "mnist", "--strategies", "local,ring", "--workers", "1,2000", "--out",
                  out().string()},
                 "--workers");
}

TEST_F(Program, DamagedDataIsNamedWithTheOffset) {
  const auto images = root() / "data" / "mnist" / "train-images-idx3-ubyte";
  const std::string good = read_file(images);
  const auto damage = [&](const std::string& bytes) { write_file_atomically(images, bytes); };
  damage(good.substr(0, good.size() - 1));
  expect_refused(train({}), images.string());
  damage("PNG" + good.substr(3));
  expect_refused(train({}), "offset 0");
  damage("");
  expect_refused(train({}), images.string());
  fs::remove(images);
  expect_refused(train({}), "train-images-idx3-ubyte");
}

TEST_F(Program, CheckpointsCompareAndAFlippedByteIsRefused) {
  ASSERT_EQ(
      run(train({"--strategy", "local", "--steps", "4", "--checkpoint-every", "2", "--no-evaluate"})).code,
      0);
  const auto first = checkpoint::step_folder(out(), 2).string();
  const auto second = checkpoint::step_folder(out(), 4).string();
  EXPECT_EQ(run({"ckpt", "show", first}).code, 0);
  EXPECT_EQ(run({"ckpt", "diff", second, second}).code, 0);
  EXPECT_EQ(run({"ckpt", "diff", first, second}).code, 1);
  const auto file = fs::path(second) / "model.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 64);
  write_file_atomically(file, bytes);
  for (const auto& arguments : {std::vector<std::string>{"ckpt", "show", second},
                                std::vector<std::string>{"train", "--resume", second, "--steps", "9"}}) {
    const Ended e = run(arguments);
    EXPECT_EQ(e.code, 2);
    EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
    EXPECT_NE(e.error.find("model.safetensors"), std::string::npos) << e.error;
  }
}

TEST_F(Program, CompareEndsWithATableOfAllCells) {
  const Ended e = run({"compare", "--data", "mnist", "--strategies", "local,ring", "--workers", "1,2",
                       "--steps", "3", "--batch", "16", "--out", out().string()});
  EXPECT_EQ(e.code, 0) << e.error;
  const auto cells = nlohmann::json::parse(read_file(out() / "compare.json"));
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[1]["summary"]["workers"], 1);
  EXPECT_EQ(cells[2]["summary"]["workers"], 2);
  EXPECT_EQ(cells[0]["summary"]["config"]["threads"], cells[2]["summary"]["config"]["threads"]);
  for (const auto& cell : cells) EXPECT_EQ(cell["summary"]["rejected_connections"], 0);
  EXPECT_NE(e.out.find("samples/s"), std::string::npos);
  EXPECT_EQ(e.out.find("DIFFER"), std::string::npos);
  const auto page = read_file(out() / "report.html");
  EXPECT_NE(page.find(R"("one_worker_only":true)"), std::string::npos) << "local";
  EXPECT_NE(page.find(R"("one_worker_only":false)"), std::string::npos) << "ring";
}

TEST_F(Program, CompareGoesOnWhereItWasAndRunsAgainWhatHasChanged) {
  const auto compare = [&](const char* strategies, const char* steps) {
    return run({"compare", "--data", "mnist", "--strategies", strategies, "--workers", "2", "--steps", steps,
                "--batch", "16", "--no-evaluate", "--repeats", "2", "--out", out().string()});
  };
  const std::string taken = "taken as it is";
  const auto count = [&](const std::string& text) {
    std::size_t n = 0;
    for (auto at = text.find(taken); at != std::string::npos; at = text.find(taken, at + 1)) ++n;
    return n;
  };
  ASSERT_EQ(compare("ring", "3").code, 0);
  const auto before = read_file(out() / "ring-2" / "summary.json");
  const Ended more = compare("ring,ps-sync", "3");
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_EQ(count(more.out), 2U) << more.out;
  EXPECT_EQ(read_file(out() / "ring-2" / "summary.json"), before);
  EXPECT_TRUE(fs::exists(out() / "ps-sync-2-repeat-2" / "summary.json"));
  EXPECT_EQ(count(compare("ring", "4").out), 0U);
}

TEST_F(Program, CompareShowsACellThatFailsAndRunsTheOthers) {
  Running running(root(), {"compare", "--data", "mnist", "--strategies", "ring,reduce-broadcast", "--workers",
                           "2", "--steps", "400", "--batch", "16", "--no-evaluate", "--out", out().string()});
  wait_for("\"step\":3,", out() / "ring-2");
  ::kill(running.workers().at(1), SIGKILL);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 1) << e.error;
  EXPECT_NE(e.out.find("failed: rank 1"), std::string::npos) << e.out;
  const auto cells = nlohmann::json::parse(read_file(out() / "compare.json"));
  EXPECT_TRUE(cells[0]["summary"].is_null());
  EXPECT_EQ(cells[1]["summary"]["strategy"], "reduce-broadcast");
}

TEST_F(Program, CompareRefusesWhatItDoesNotKnow) {
  expect_refused({"compare", "--strategies", "ring,nonsense", "--out", out().string()}, "nonsense");
  expect_refused({"compare", "--repeats", "0", "--out", out().string()}, "--repeats");
  expect_refused({"compare", "--reproducible", "--workers", "1,2", "--out", out().string()},
                 "give --global-batch");
}

TEST_F(Program, ARunLeavesItsPageAndItsSamples) {
  ASSERT_EQ(run(train({"--strategy", "ps-sync", "--workers", "2", "--steps", "3", "--no-evaluate"})).code, 0);
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_TRUE(fs::exists(out() / (std::string("samples-rank-") + rank + ".jsonl"))) << rank;
  }
  fs::remove(out() / "report.html");
  EXPECT_EQ(run({"report", out().string()}).code, 0);
  EXPECT_TRUE(fs::exists(out() / "report.html"));
}

TEST_F(Program, ReportRefusesAFolderThatIsNone) {
  expect_refused({"report", (root() / "data").string()}, "compare.json");
  expect_refused({"report", (root() / "nowhere").string()}, "nowhere");
}

TEST_F(Program, BenchPrintsTheRowsOfTheContract) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    const Ended e = run({"bench", "allreduce", "--ranks", "2", "--transport", transport, "--sizes", "1K,64K",
                         "--iterations", "3", "--json"});
    ASSERT_EQ(e.code, 0) << e.error;
    const auto rows = nlohmann::json::parse(e.out);
    ASSERT_EQ(rows.size(), 2U);
    for (const char* key : {"bytes", "seconds", "ranks", "transport", "engine", "algorithm", "verified"}) {
      EXPECT_TRUE(rows[0].contains(key)) << key;
    }
    EXPECT_EQ(rows[1]["bytes"], 65536);
    EXPECT_EQ(rows[1]["transport"], transport);
  }
}

TEST_F(Program, BenchSaysWhatProtectedTheWire) {
  for (const char* wire : {"auto", "plain", "auth", "encrypt"}) {
    const Ended e = run({"bench", "allreduce", "--ranks", "2", "--transport", "tcp", "--wire", wire,
                         "--sizes", "64K,3M", "--iterations", "3", "--json"});
    ASSERT_EQ(e.code, 0) << e.error;
    for (const auto& row : nlohmann::json::parse(e.out)) {
      EXPECT_EQ(row["wire"], std::string(wire) == "auto" ? "plain" : wire);
      EXPECT_TRUE(row["verified"]);
    }
  }
  expect_refused({"bench", "allreduce", "--transport", "tcp", "--wire", "tls"}, "--wire");
}

TEST_F(Program, BenchOfARendezvousTellsItsTime) {
  const Ended e = run({"bench", "rendezvous", "--ranks", "20", "--idle-connections", "30", "--json"});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto row = nlohmann::json::parse(e.out).at(0);
  EXPECT_EQ(row["ranks"], 20);
  EXPECT_EQ(row["idle_connections"], 30);
  EXPECT_GT(row["seconds"], 0);
}

TEST_F(Program, BenchOfServersIsVerified) {
  for (const char* transport : {"shm", "tcp"}) {
    const Ended e = run({"bench", "ps", "--workers", "2", "--servers", "2", "--transport", transport,
                         "--sizes", "64K", "--iterations", "3", "--table-rows", "1000", "--table-width", "8",
                         "--partitions", "3", "--json"});
    ASSERT_EQ(e.code, 0) << e.error;
    const auto rows = nlohmann::json::parse(e.out);
    ASSERT_EQ(rows.size(), 5U);
    for (const auto& row : rows) EXPECT_TRUE(row["verified"]);
    EXPECT_EQ(rows[2]["algorithm"], "push+pull");
    EXPECT_EQ(rows[4]["touched_rows"], 10);
  }
  expect_refused({"bench", "ps", "--servers", "0"}, "--servers");
  expect_refused({"bench", "ps", "--table-rows", "10", "--touch", "2"}, "--touch");
}

TEST_F(Program, HelpAndListsWork) {
  for (const auto& arguments : {std::vector<std::string>{"--help"},
                                {"--version"},
                                {"train", "--help"},
                                {"models"},
                                {"doctor"},
                                {"data", "list"},
                                {"data", "path", "mnist"}}) {
    EXPECT_EQ(run(arguments).code, 0) << arguments[0];
  }
  EXPECT_NE(run({"models"}).out.find("690590"), std::string::npos);
  EXPECT_EQ(run({"data", "verify", "mnist"}).code, 2);  // these are bars, not MNIST
}

TEST_F(Program, CommandsThatADescriptionNamesAreThere) {
  const Ended e = run({"data", "--help"});
  ASSERT_EQ(e.code, 0) << e.error;
  const std::string begin = "Data sets: ";
  const auto at = e.out.find(begin);
  ASSERT_NE(at, std::string::npos) << e.out;
  const auto first = at + begin.size();
  std::istringstream names(e.out.substr(first, e.out.find('\n', first) - first));
  int named = 0;
  for (std::string name; names >> name; ++named) {
    std::erase(name, ',');
    EXPECT_EQ(run({"data", name, "--help"}).code, 0) << name;
  }
  EXPECT_EQ(named, 5);
}

// A program of others: what suits training is set for it, unless its user has set something else.
TEST_F(Program, LaunchSetsWhatSuitsTrainingUnlessItIsSet) {
  const std::vector<std::string> show = {"launch", "-n", "2", "--no-prefix", "--", "/usr/bin/env"};
  const auto lines_with = [](const Ended& e, const std::string& begin) {
    int found = 0;
    std::istringstream lines(e.out);
    for (std::string line; std::getline(lines, line);) found += line.starts_with(begin) ? 1 : 0;
    return found;
  };
  const Ended plain = run(show, [] {
    ::unsetenv("GLIBC_TUNABLES");
    ::unsetenv("OMP_NUM_THREADS");
  });
  ASSERT_EQ(plain.code, 0) << plain.error;
  EXPECT_EQ(lines_with(plain, "GLIBC_TUNABLES=glibc.malloc."), 2) << plain.out;
  EXPECT_EQ(lines_with(plain, "OMP_NUM_THREADS="), 2) << plain.out;
  const Ended own = run(show, [] {
    ::setenv("GLIBC_TUNABLES", "glibc.malloc.check=0", 1);
    ::setenv("OMP_NUM_THREADS", "7", 1);
  });
  EXPECT_EQ(lines_with(own, "GLIBC_TUNABLES=glibc.malloc.check=0"), 2) << own.out;
  EXPECT_EQ(lines_with(own, "OMP_NUM_THREADS=7"), 2) << own.out;
}

}  // namespace
}  // namespace tutti
