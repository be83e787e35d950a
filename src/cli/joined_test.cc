// The program in processes that somebody else has started: by hand, by torchrun, by TensorFlow's description.
#include <map>

#include "base/error.h"
#include "cli/program_fixture.h"
#include "net/acceptor.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

class StartedByOthers : public Program {
 protected:
  // A process for each, with a folder of its own for what it prints.
  void start(const std::vector<std::string>& arguments, const std::vector<Variables>& processes) {
    for (const Variables& variables : processes) {
      const auto folder = root() / fmt::format("process-{}", running_.size());
      fs::create_directories(folder);
      running_.push_back(std::make_unique<Running>(folder, arguments, [&] {
        ::setenv("TUTTI_DATA", (root() / "data").c_str(), 1);
        ::setenv("XDG_RUNTIME_DIR", root().c_str(), 1);
        for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      }));
    }
  }

  std::vector<Ended> wait() {
    std::vector<Ended> ended;
    for (const auto& r : running_) ended.push_back(r->wait());
    running_.clear();
    return ended;
  }

  static Variables place(int rank, int size) {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(size)},
            {"MASTER_ADDR", "localhost"},
            {"MASTER_PORT", "29400"}};
  }
  static std::vector<Variables> places(int size) {
    std::vector<Variables> all;
    for (int rank = 0; rank < size; ++rank) all.push_back(place(rank, size));
    return all;
  }

  void expect_equal_replicas(std::size_t workers) const {
    const auto s = summary();
    EXPECT_EQ(s["replicas_sha256"].size(), workers);
    for (const auto& r : s["replicas_sha256"]) EXPECT_EQ(r, s["parameters_sha256"]);
  }

  void expect_nothing_left() const {
    EXPECT_TRUE(!fs::exists(root() / "tutti") || fs::is_empty(root() / "tutti")) << "the secret";
  }

  std::vector<std::unique_ptr<Running>> running_;
};

TEST_F(StartedByOthers, ProcessesWithARankTrainTheBitsOfOurLauncher) {
  for (const char* transport : {"shm", "tcp"}) {
    const std::vector<std::string> flags = {"--steps", "4", "--no-evaluate", "--transport", transport};
    start(train(flags), places(3));
    const auto ended = wait();
    for (const Ended& e : ended) ASSERT_EQ(e.code, 0) << e.error;
    EXPECT_NE(ended[0].out.find("on every replica"), std::string::npos) << ended[0].out;
    EXPECT_EQ(ended[1].out + ended[2].out, "") << "rank 0 speaks for all";
    expect_equal_replicas(3);
    expect_nothing_left();
    const auto digest = summary()["parameters_sha256"];
    auto launched = flags;
    launched.insert(launched.end(), {"--workers", "3"});
    ASSERT_EQ(run(train(launched)).code, 0);
    EXPECT_EQ(summary()["parameters_sha256"], digest);
  }
}

TEST_F(StartedByOthers, OneThatDoesNotComeIsNamedByTheOthers) {
  start(train({"--steps", "4", "--join-timeout", "3"}), {place(0, 3), place(2, 3)});
  for (const Ended& e : wait()) {
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(e.error.find("for rank 1, which did not come"), std::string::npos) << e.error;
  }
  expect_nothing_left();
}

TEST_F(StartedByOthers, OneThatIsKilledIsNamedByTheOthersWhichEnd) {
  for (const char* transport : {"shm", "tcp"}) {
    std::filesystem::remove_all(out());  // steps of the run before are none of this one's
    start(train({"--epochs", "50", "--no-evaluate", "--transport", transport}), places(3));
    wait_for_steps();
    ::kill(running_[1]->pid(), SIGKILL);
    const auto ended = wait();
    for (const std::size_t survivor : {0U, 2U}) {
      EXPECT_EQ(ended[survivor].code, 1) << transport;
      EXPECT_NE(ended[survivor].error.find(" was lost in all-reduce"), std::string::npos)
          << transport << ended[survivor].error;
    }
    // One may lose another that has just ended because of this one.
    EXPECT_NE((ended[0].error + ended[2].error).find("rank 1 was lost"), std::string::npos) << transport;
    expect_nothing_left();
  }
}

TEST_F(StartedByOthers, WhatIsWrongIsSaidOnceAndAllEnd) {
  start(train_into_out({"--strategy", "nonsense"}), places(2));
  const auto ended = wait();
  for (const Ended& e : ended) EXPECT_EQ(e.code, 2) << e.error;
  EXPECT_EQ(std::ranges::count(ended[0].error, '\n'), 1) << ended[0].error;
  EXPECT_EQ(ended[1].error, "");
}

TEST_F(StartedByOthers, WhatIsWrongForOneIsSaidByTheFirstWithItsRank) {
  for (const std::size_t wrong : {1U, 0U}) {
    for (const std::size_t rank : {0U, 1U, 2U}) {
      start({"bench", "allreduce", "--iterations", "2", "--sizes", rank == wrong ? "3" : "1K"},
            {place(static_cast<int>(rank), 3)});
    }
    const auto ended = wait();
    for (const Ended& e : ended) EXPECT_EQ(e.code, 2) << e.error;
    EXPECT_EQ(std::ranges::count(ended[0].error, '\n'), 1) << ended[0].error;
    EXPECT_EQ(ended[0].error.starts_with("tutti: rank 1: "), wrong == 1) << ended[0].error;
    EXPECT_EQ(ended[1].error + ended[2].error, "");
  }
}

TEST_F(StartedByOthers, BadVariablesAreRefusedByName) {
  struct Case {
    Variables variables;
    std::vector<std::string> flags;
    std::string said;
  };
  auto no_size = place(0, 2);
  no_size.erase("WORLD_SIZE");
  auto far = place(0, 2);
  far["MASTER_ADDR"] = "host0";
  for (const Case& c :
       {Case{no_size, {}, "RANK is set and WORLD_SIZE is not"},
        Case{place(2, 2), {}, "RANK is 2 and WORLD_SIZE is 2"},
        Case{far, {}, "name a file of mode 0600 that all can read in TUTTI_SECRET_FILE"},
        Case{place(0, 2), {"--join-timeout", "0"}, "--join-timeout must be between 0 and 86400"},
        Case{place(0, 2), {"--cluster", "none"}, "--cluster none: cannot be read"},
        Case{{{"TF_CONFIG", "{}"}}, {}, "TF_CONFIG: must be JSON with a \"cluster\""},
        Case{{}, {"--port-range", "9-1"}, "--port-range must be FIRST-LAST"},
        Case{
            {}, {"--interface", "nowhere0", "--transport", "tcp"}, "--interface nowhere0 is no interface"}}) {
    start(train_into_out(c.flags), {c.variables});
    const auto ended = wait();
    EXPECT_EQ(ended[0].code, 2) << ended[0].error;
    EXPECT_EQ(std::ranges::count(ended[0].error, '\n'), 1) << ended[0].error;
    EXPECT_NE(ended[0].error.find(c.said), std::string::npos) << ended[0].error;
  }
}

// One that is alone starts what it is asked for itself, as in the shell of `srun --pty bash`.
TEST_F(StartedByOthers, OneAloneStartsWorkersItself) {
  start(train({"--steps", "4", "--no-evaluate", "--workers", "2"}), {place(0, 1)});
  EXPECT_EQ(wait()[0].code, 0);
  expect_equal_replicas(2);
}

TEST_F(StartedByOthers, TasksOfSlurmOnOneNodeTrain) {
  std::vector<Variables> tasks;
  for (int rank = 0; rank < 2; ++rank) {
    tasks.push_back({{"SLURM_PROCID", std::to_string(rank)},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n1"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", "7"}});
  }
  start(train({"--steps", "4", "--no-evaluate"}), tasks);
  for (const Ended& e : wait()) ASSERT_EQ(e.code, 0) << e.error;
  expect_equal_replicas(2);
}

// As on several nodes, where a file of the user has the secret and a port is agreed on.
TEST_F(StartedByOthers, TasksOfSlurmOnSeveralNodesMeetByASecretFile) {
  const auto secret = root() / "secret";
  std::ofstream(secret) << "a secret of some length";
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  boost::asio::io_context io;
  net::Tcp::acceptor free_port(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const auto port = std::to_string(free_port.local_endpoint().port());
  free_port.close();
  std::vector<Variables> tasks;
  for (int rank = 0; rank < 4; ++rank) {
    tasks.push_back({{"SLURM_PROCID", std::to_string(rank)},
                     {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_NODELIST", "n[1-2]"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", "7"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", port},
                     {"TUTTI_SECRET_FILE", secret.string()}});
  }
  start(train({"--steps", "4", "--no-evaluate"}), tasks);
  for (const Ended& e : wait()) ASSERT_EQ(e.code, 0) << e.error;
  expect_equal_replicas(4);
}

TEST_F(StartedByOthers, TasksOfTensorFlowTakeTheirRoles) {
  const auto task = [](const std::string& type, int index) {
    return Variables{
        {"TF_CONFIG",
         nlohmann::json{
             {"cluster",
              {{"chief", {"localhost:2221"}}, {"worker", {"localhost:2222"}}, {"ps", {"localhost:2223"}}}},
             {"task", {{"type", type}, {"index", index}}}}
             .dump()}};
  };
  const std::vector<Variables> tasks = {task("chief", 0), task("worker", 0), task("ps", 0)};
  start(train({"--strategy", "ps-sync", "--steps", "4", "--no-evaluate"}), tasks);
  for (const Ended& e : wait()) ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["workers"], 2);
  EXPECT_EQ(summary()["servers"], 1);
  expect_equal_replicas(2);
  start(train({"--strategy", "allreduce", "--steps", "4", "--no-evaluate"}), tasks);
  const auto ended = wait();
  for (const Ended& e : ended) EXPECT_EQ(e.code, 2) << e.error;
  EXPECT_NE(ended[0].error.find("has 1 ps, and --strategy allreduce has no servers"), std::string::npos)
      << ended[0].error;
}

TEST_F(StartedByOthers, ClusterOfAFileIsTheSameForAll) {
  const auto file = root() / "cluster.json";
  std::ofstream(file) << R"({"cluster": {"worker": ["localhost:1", "localhost:2"]}})";
  const auto arguments = train({"--steps", "4", "--no-evaluate", "--cluster", file.string()});
  start(arguments, {{{"TUTTI_TASK", "worker:0"}}, {{"TUTTI_TASK", "worker:1"}}});
  for (const Ended& e : wait()) ASSERT_EQ(e.code, 0) << e.error;
  expect_equal_replicas(2);
}

TEST_F(StartedByOthers, LaunchersThatDisagreeAreToldOnceAboutHowManyAndByTheRankThatHasTwo) {
  const auto trained = [&](const std::vector<std::string>& ranks, const std::string& size) {
    std::vector<Variables> processes = places(3);
    for (std::size_t r = 0; r < processes.size(); ++r) {
      processes[r]["OMPI_COMM_WORLD_RANK"] = ranks[r];
      processes[r]["OMPI_COMM_WORLD_SIZE"] = size;
    }
    start(train({"--steps", "4", "--no-evaluate"}), processes);
    auto ended = wait();
    for (const Ended& e : ended) EXPECT_EQ(e.code, 0) << e.error;
    return ended;
  };
  const auto sizes = trained({"0", "1", "2"}, "9");
  EXPECT_NE(sizes[0].error.find(
                "rank 0 (RANK) of 3 (WORLD_SIZE), Open MPI says rank 0 (OMPI_COMM_WORLD_RANK) of 9"),
            std::string::npos)
      << sizes[0].error;
  EXPECT_EQ(sizes[1].error + sizes[2].error, "");
  const auto ranks = trained({"0", "2", "1"}, "3");
  EXPECT_EQ(ranks[0].error, "");
  for (const std::size_t r : {1U, 2U}) {
    EXPECT_NE(ranks[r].error.find(fmt::format(
                  "torchrun says rank {} (RANK) of 3 (WORLD_SIZE), Open MPI says rank {}", r, 3 - r)),
              std::string::npos)
        << ranks[r].error;
  }
}

TEST_F(StartedByOthers, WhatStartsItsProcessesItselfIsRefused) {
  const auto compare = std::vector<std::string>{"compare", "--data", "synthetic", "--out", out().string()};
  for (const auto& command : {compare, {"bisect", "a", "b"}, {"bench", "ps"}, {"reproduce", "deepfam"}}) {
    start(command, places(2));
    for (const Ended& e : wait()) {
      EXPECT_EQ(e.code, 2) << command[0] << e.error;
      EXPECT_NE(e.error.find("starts its processes itself, which torchrun has done already"),
                std::string::npos)
          << e.error;
    }
  }
  for (const char* flag : {"--cluster", "--task", "--port", "--secret-file", "--join-timeout"}) {
    auto with = compare;
    with.insert(with.end(), {flag, "1"});
    expect_refused(with, flag);
  }
}

TEST_F(StartedByOthers, PortRangeIsKeptToByOurLauncherToo) {
  boost::asio::io_context io;
  net::Tcp::acceptor taken(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const auto port = std::to_string(taken.local_endpoint().port());
  const Ended e = run(train({"--steps", "4", "--workers", "2", "--transport", "tcp", "--port-range", port}));
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("cannot listen on 127.0.0.1, port " + port), std::string::npos) << e.error;
  ASSERT_EQ(run(train({"--steps", "4", "--workers", "2", "--transport", "tcp", "--no-evaluate",
                       "--port-range", "21200-21299", "--interface", "lo"}))
                .code,
            0);
}

TEST_F(StartedByOthers, LaunchTakesPortRangeAndInterfaceByVariableAndByFlag) {
  boost::asio::io_context io;
  net::Tcp::acceptor taken(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const auto port = std::to_string(taken.local_endpoint().port());
  const auto launched = [&](const std::vector<std::string>& flags, const Variables& variables) {
    std::vector<std::string> all = {"launch", "-n", "2", "--transport", "tcp"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", TUTTI_FROM_SCRATCH});
    start(all, {variables});
    return wait()[0];
  };
  const auto busy = "cannot listen on 127.0.0.1, port " + port;
  for (const Ended& e : {launched({}, {{"TUTTI_PORT_RANGE", port}}), launched({"--port-range", port}, {})}) {
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(e.error.find(busy), std::string::npos) << e.error;
  }
  for (const Ended& e :
       {launched({}, {{"TUTTI_INTERFACE", "nowhere0"}}), launched({"--interface", "nowhere0"}, {})}) {
    EXPECT_EQ(e.code, 2) << e.error;
    EXPECT_NE(e.error.find("--interface nowhere0 is no interface"), std::string::npos) << e.error;
  }
  const Ended e =
      launched({"--port-range", "21300-21399", "--interface", "lo"}, {{"TUTTI_PORT_RANGE", port}});
  EXPECT_EQ(e.code, 0) << e.error;
}

TEST_F(StartedByOthers, DoctorSaysWhoItIs) {
  start({"doctor"}, {place(1, 3)});
  const Ended e = wait()[0];
  EXPECT_NE(e.out.find("torchrun: rank 1 of 3; they meet on this host"), std::string::npos) << e.out;
}

TEST_F(StartedByOthers, TorchrunsProcessesTrain) {
  constexpr auto kTorchrun = "/usr/bin/torchrun";  // Debian's, of python3-torch
  if (!fs::exists(kTorchrun)) GTEST_SKIP() << "there is no " << kTorchrun << " (python3-torch)";
  const auto arguments = train({"--steps", "4", "--no-evaluate"});
  const Ended e = run({}, [&] {
    // Of version 1.13 under Python 3.11 only these two numbers of --redirects and --tee work.
    std::vector<std::string> words = {
        kTorchrun, "--no_python", "--standalone",  "--nproc_per_node", "3", "--redirects", "2", "--tee",
        "2",       "--log_dir",   root().string(), Running::program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    ::execv(kTorchrun, argv.data());
  });
  ASSERT_EQ(e.code, 0) << e.error;
  expect_equal_replicas(3);
}

}  // namespace
}  // namespace tutti
