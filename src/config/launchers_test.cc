#include "config/launchers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace tutti::config {
namespace {

using Set = std::map<std::string, std::string>;

std::optional<Placement> placement(const Set& set, const JoinSettings& settings = {}) {
  return find_placement(
      [&](const std::string& name) {
        const auto found = set.find(name);
        return found == set.end() ? std::nullopt : std::optional(found->second);
      },
      settings);
}

Set with(Set set, const Set& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

Set without(Set set, const std::string& name) {
  set.erase(name);
  return set;
}

const Set kTorchrun = {{"RANK", "1"},
                       {"WORLD_SIZE", "3"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "3"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Set kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"PMIX_NAMESPACE", "77"}};
const Set kPmi = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}};
const Set kPmiOfOthers = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_PORT", "host0:43129"}};
const Set kSlurm = {
    {"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NODELIST", "gnode[10,20-25]"},
    {"SLURM_STEP_ID", "3"}, {"SLURM_JOB_ID", "1000"},      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
    {"SLURM_NTASKS", "16"}};
const Set kTensorFlow = {{"TF_CONFIG", R"({"cluster": {"chief": ["a:2221"], "worker": ["b:2222", "b:2223"],
                                           "ps": ["c:2224"]}, "task": {"type": "worker", "index": 1}})"}};

TEST(Launchers, NobodyHasStartedAProcessWithoutTheirVariables) {
  EXPECT_FALSE(placement({}));
  EXPECT_FALSE(placement({{"HOME", "/root"}}));
}

TEST(Launchers, EachSaysRankSizeAndPlace) {
  struct Case {
    Set set;
    std::string launcher;
    int rank, size;
    bool one_host;
    std::string host;
    int port;
  };
  const Case cases[] = {
      {kTorchrun, "torchrun", 1, 3, true, "127.0.0.1", 29501},
      {without(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"), "torchrun", 1, 3, true, "127.0.0.1", 29500},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "host0"}}), "torchrun", 1, 3, false,
       "host0", 29501},
      {without(with(kTorchrun, {{"MASTER_ADDR", "host0"}}), "LOCAL_WORLD_SIZE"), "torchrun", 1, 3, false,
       "host0", 29501},
      {without(kTorchrun, "LOCAL_WORLD_SIZE"), "torchrun", 1, 3, true, "127.0.0.1", 29501},
      {kOpenMpi, "Open MPI", 2, 4, true, "", 0},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}}),
       "Open MPI", 2, 4, false, "h", 5},
      {kPmi, "PMI", 0, 2, false, "", 0},
      {kPmiOfOthers, "PMI", 1, 2, false, "", 0},
      {with(kPmiOfOthers, {{"MPI_LOCALNRANKS", "2"}}), "PMI", 1, 2, true, "", 0},
      {with(kPmiOfOthers, {{"MPI_LOCALNRANKS", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}}), "PMI", 1,
       2, false, "h", 5},
      {with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}), "SLURM", 5, 8, false, "gnode10", 24'003},
      {with(kPmiOfOthers, kSlurm), "PMI", 1, 2, false, "", 0},
      {with(kPmiOfOthers, {{"SLURM_STEP_ID", "4294967291"}, {"SLURM_NTASKS", "9"}}), "PMI", 1, 2, false, "",
       0},
      {kSlurm, "SLURM", 5, 8, false, "gnode10", 20'000 + (16'003 % 12'000)},
      {with(kSlurm, {{"SLURM_STEP_NODELIST", "gnode10"}}), "SLURM", 5, 8, true, "gnode10", 24'003},
      {with(kSlurm, {{"MASTER_ADDR", "10.1.1.1"}, {"MASTER_PORT", "4000"}}), "SLURM", 5, 8, false, "10.1.1.1",
       4000},
      {without(kSlurm, "SLURM_STEP_NUM_TASKS"), "SLURM", 5, 16, false, "gnode10", 24'003},
      {kTensorFlow, "TF_CONFIG", 2, 4, false, "a", 2221},
  };
  for (const Case& c : cases) {
    const auto p = placement(c.set);
    ASSERT_TRUE(p) << c.launcher;
    EXPECT_EQ(p->launcher, c.launcher);
    EXPECT_EQ(p->rank, c.rank) << c.launcher;
    EXPECT_EQ(p->size, c.size) << c.launcher;
    EXPECT_EQ(p->one_host, c.one_host) << c.launcher << " at " << c.host;
    EXPECT_EQ(p->host, c.host) << c.launcher;
    EXPECT_EQ(p->port, c.port) << c.launcher;
    EXPECT_EQ(p->conflict, "") << c.launcher;
  }
  EXPECT_EQ(placement(kPmi)->pmi_descriptor, 6);
  EXPECT_FALSE(placement(kPmiOfOthers)->pmi_descriptor);
  EXPECT_EQ(placement(kPmiOfOthers)->job, "host0:43129");
  EXPECT_EQ(placement(kTensorFlow)->servers, 1);
  EXPECT_EQ(placement(kTorchrun, {.port = 7000})->port, 7000) << "what the user says wins";
}

TEST(Launchers, OursCountsBeforeAllOthersAndSaysTheRestItself) {
  const auto p = placement(with(kTorchrun, {{"TUTTI_JOB_FD", "9"}}));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->launcher, "tutti");
  EXPECT_EQ(p->job_descriptor, 9);
  EXPECT_EQ(p->conflict, "");
}

// sbatch sets SLURM_PROCID in the script, too, and steps of scripts and shells have reserved numbers.
TEST(Launchers, BatchScriptsAndShellsOfSlurmAreNoTasks) {
  EXPECT_FALSE(placement(without(without(kSlurm, "SLURM_STEP_ID"), "SLURM_STEP_NODELIST")));
  EXPECT_FALSE(placement(with(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})));
  EXPECT_FALSE(placement(with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})));
  EXPECT_TRUE(placement(with(without(kSlurm, "SLURM_STEP_ID"), {{"SLURM_STEPID", "0"}}))) << "the older name";
  const auto unnumbered = placement(without(kSlurm, "SLURM_STEP_ID"));
  ASSERT_TRUE(unnumbered) << "it is told the nodes of its step";
  EXPECT_EQ(unnumbered->job, "1000.0");
}

TEST(Launchers, TwoThatDisagreeAreToldWithBothValues) {
  const auto p = placement(with(kTorchrun, kOpenMpi));
  EXPECT_EQ(p->launcher, "torchrun");
  EXPECT_EQ(p->rank, 1);
  EXPECT_EQ(p->conflict,
            "torchrun says rank 1 (RANK) of 3 (WORLD_SIZE), Open MPI says rank 2 (OMPI_COMM_WORLD_RANK) of 4 "
            "(OMPI_COMM_WORLD_SIZE); what torchrun says counts");
  EXPECT_EQ(placement(with(kTorchrun, {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"PMI_FD", "4"}}))->conflict, "")
      << "they agree";
  EXPECT_EQ(placement(with(kOpenMpi, kSlurm))->conflict, "") << "mpirun starts its daemons by srun";
}

// Of another size rank 0 can speak, of another rank only the process that has it.
TEST(Launchers, OfTwoThatDisagreeTheOneWithAnotherRankIsTold) {
  const Set other_size = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  const auto size = placement(with(kTorchrun, other_size));
  EXPECT_FALSE(size->ranks_conflict);
  EXPECT_NE(size->conflict.find("Open MPI says rank 1"), std::string::npos) << size->conflict;
  const auto rank =
      placement(with(with(kTorchrun, other_size), {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMI_FD", "4"}}));
  EXPECT_TRUE(rank->ranks_conflict);
  EXPECT_NE(rank->conflict.find("PMI says rank 0 (PMI_RANK) of 3"), std::string::npos) << rank->conflict;
  const auto sizes =
      placement(with(with(kTorchrun, other_size), {{"PMI_RANK", "1"}, {"PMI_SIZE", "5"}, {"PMI_FD", "4"}}));
  EXPECT_EQ(sizes->conflict, size->conflict) << "of two alike the first";
}

TEST(Launchers, BadValuesAreRefusedByName) {
  struct Case {
    Set set;
    std::string said;
  };
  const auto tf = [](const std::string& text) { return Set{{"TF_CONFIG", text}}; };
  const Case cases[] = {
      {{{"TUTTI_JOB_FD", "x"}}, "TUTTI_JOB_FD is 'x', which is no descriptor"},
      {with(kTorchrun, {{"RANK", "one"}}), "RANK is 'one', which is no number"},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK is '-1', which is no number"},
      {with(kTorchrun, {{"WORLD_SIZE", "3x"}}), "WORLD_SIZE is '3x', which is no number"},
      {with(kTorchrun, {{"RANK", "3"}}), "RANK is 3 and WORLD_SIZE is 3: ranks count from 0"},
      {with(kTorchrun, {{"LOCAL_RANK", "3"}}), "LOCAL_RANK is 3 and LOCAL_WORLD_SIZE is 3"},
      {without(kTorchrun, "RANK"), "WORLD_SIZE is set and RANK is not"},
      {without(kTorchrun, "WORLD_SIZE"), "RANK is set and WORLD_SIZE is not"},
      {without(kTorchrun, "MASTER_ADDR"), "RANK is set and MASTER_ADDR is not"},
      {without(kTorchrun, "MASTER_PORT"), "RANK is set and MASTER_PORT is not"},
      {with(kTorchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT is 65535, which leads to no port"},
      {without(kOpenMpi, "OMPI_COMM_WORLD_RANK"),
       "OMPI_COMM_WORLD_SIZE is set and OMPI_COMM_WORLD_RANK is not"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "2"}}),
       "OMPI_COMM_WORLD_RANK is 2 and OMPI_COMM_WORLD_SIZE is 2"},
      {with(kPmi, {{"PMI_FD", "six"}}), "PMI_FD is 'six', which is no number"},
      {without(without(kPmi, "PMI_RANK"), "PMI_SIZE"), "PMI_FD is set and PMI_RANK is not"},
      {without(kPmi, "PMI_SIZE"), "PMI_RANK is set and PMI_SIZE is not"},
      {without(kPmiOfOthers, "PMI_RANK"), "PMI_SIZE is set and PMI_RANK is not"},
      {without(kPmiOfOthers, "PMI_SIZE"), "PMI_RANK is set and PMI_SIZE is not"},
      {with(kPmiOfOthers, {{"MPI_LOCALNRANKS", "all"}}), "MPI_LOCALNRANKS is 'all', which is no number"},
      {{{"SLURM_STEP_ID", "0"}}, "SLURM_STEP_ID is set and SLURM_PROCID is not"},
      {{{"SLURM_STEPID", "0"}}, "SLURM_STEPID is set and SLURM_PROCID is not"},
      {{{"SLURM_STEP_NODELIST", "n1"}}, "SLURM_STEP_NODELIST is set and SLURM_PROCID is not"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}},
       "SLURM_PROCID is set and SLURM_STEP_NUM_TASKS is not"},
      {without(kSlurm, "SLURM_PROCID"), "SLURM_STEP_NUM_TASKS is set and SLURM_PROCID is not"},
      {without(without(kSlurm, "SLURM_PROCID"), "SLURM_STEP_NUM_TASKS"),
       "SLURM_NTASKS is set and SLURM_PROCID is not"},
      {with(without(kSlurm, "SLURM_STEP_NUM_TASKS"), {{"SLURM_NTASKS", "5"}}),
       "SLURM_PROCID is 5 and SLURM_NTASKS is 5"},
      {without(kSlurm, "SLURM_STEP_NODELIST"), "SLURM_PROCID is set and SLURM_STEP_NODELIST is not"},
      {with(kSlurm, {{"SLURM_STEP_NODELIST", "n[1"}}), "'n[1' is no list of nodes"},
      {with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "5"}}), "SLURM_PROCID is 5 and SLURM_STEP_NUM_TASKS is 5"},
      {tf("no json"), "TF_CONFIG: must be JSON"},
      {tf("[1]"), "TF_CONFIG: must be JSON"},
      {tf(R"({"cluster": {"worker": ["a:1"]}})"), "TF_CONFIG: says no \"task\""},
      {tf(R"({"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}})"),
       "\"worker\" must be a list"},
      {tf(R"({"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}})"), "a is no HOST:PORT"},
      {tf(R"({"cluster": {"worker": ["a:0"]}, "task": {"type": "worker", "index": 0}})"),
       "a:0 is no HOST:PORT"},
      {tf(R"({"cluster": {"worker": [7]}, "task": {"type": "worker", "index": 0}})"), "7 is no HOST:PORT"},
      {tf(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "x"}})"),
       "which is no number"},
      {tf(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})"),
       "there is no task worker:1"},
      {tf(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})"),
       "no task evaluator:0"},
      {tf(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})"),
       "names no worker and no chief"},
  };
  for (const Case& c : cases) {
    try {
      placement(c.set);
      ADD_FAILURE() << c.said;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(c.said), std::string::npos) << e.what() << "\nnot: " << c.said;
    }
  }
}

TEST(Launchers, ClusterOfAFileIsReadWithTheTaskBesideIt) {
  const ScratchFolder folder;
  const auto file = folder.path() / "cluster.json";
  std::ofstream(file) << R"({"cluster": {"worker": ["localhost:1", "localhost:2"], "ps": ["localhost:3"]}})";
  const auto p = placement(kTorchrun, {.cluster = file.string(), .task = "ps:0"});
  EXPECT_EQ(p->launcher, "--cluster FILE");
  EXPECT_EQ(p->rank, 2);
  EXPECT_EQ(p->size, 3);
  EXPECT_EQ(p->servers, 1);
  EXPECT_TRUE(p->one_host);
  EXPECT_NE(p->conflict.find("torchrun says rank 1 (RANK)"), std::string::npos) << p->conflict;
  EXPECT_THROW(placement({}, {.cluster = (folder.path() / "none").string()}), ConfigError);
  EXPECT_THROW(placement({}, {.cluster = file.string(), .task = "worker"}), ConfigError);
  EXPECT_THROW(placement({}, {.cluster = file.string()}), ConfigError) << "nobody says which task";
}

TEST(Launchers, TableOfThePageIsTheOneOfTheCode) {
  std::ifstream page(TUTTI_JOINING_PAGE);
  std::ostringstream text;
  text << page.rdbuf();
  EXPECT_NE(text.str().find(launchers_table()), std::string::npos)
      << "docs/joining.md must hold this table:\n"
      << launchers_table();
}

}  // namespace
}  // namespace tutti::config
