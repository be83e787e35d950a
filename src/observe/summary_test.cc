#include "observe/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"

namespace tutti::observe {
namespace {

// No field is as in a new one.
Summary with_everything() {
  return {.model = "net",
          .data = "made up",
          .strategy = "ps-async",
          .workers = 2,
          .servers = 3,
          .steps = 40,
          .batch_per_worker = 16,
          .seed = 18'446'744'073'709'551'615U,
          .reproducible = true,
          .samples_per_second = 100.5,
          .steps_per_second = 2.5,
          .gradients_per_second = 5.5,
          .words_per_second = 700.5,
          .steps_per_worker = {10, 11},
          .pace_ms = 20,
          .slow = "1:5",
          .step_ms = {.median = 1.5, .p90 = 2.5},
          .compute_ms = 3.5,
          .exchange_ms = 4.5,
          .exposed_exchange_ms = 0.5,
          .finite_check_ms = 0.25,
          .checkpoint_hold_ms = 6.5,
          .checkpoint_copy_ms = 7.5,
          .wall_seconds = 8.5,
          .bytes_sent_per_worker = 5'000'000'000U,
          .peak_memory_bytes = {6'000'000'000, 7},
          .parameter_bytes = 40,
          .train_loss = 0.75,
          .test = {{"accuracy", 0.9}, {"loss", 0.5}, {"top5", 0.99}, {"perplexity", std::nullopt}},
          .until = Until{{.figure = "accuracy", .value = 0.9}, true, 12.5},
          .skipped_steps = 4,
          .dropped_workers = {1},
          .restarts = 1,
          .restart_causes = {{.because = "rank 1 was killed", .from_step = 20}},
          .collectives = {{"all-reduce", "ring", 1024, "it was asked for"}},
          .by_servers = ServersFigures{.bytes_sent_per_server = 77,
                                       .pieces_applied = 10,
                                       .pieces_dropped = 11,
                                       .pieces_repeated = 12,
                                       .max_lead = 3,
                                       .staleness = {1.5, 2, {{0, 4}, {10, 6}}}},
          .routes = {{{"parameter", "embedding"}, {"route", "servers"}}},
          .partitions = 6,
          .partition_search = PartitionsTried{{{.partitions = 3, .ms = 1.25}}, 6, "the fit says so"},
          .parameters_sha256 = "a",
          .replicas_sha256 = {"a", "b"},
          .initial_parameters_sha256 = "c",
          .samples_sha256 = "d",
          .sample_ledger = {{.epoch = 2, .samples = 60'000, .digest = "0f", .partial = true}},
          .data_sha256 = "e",
          .model_sha256 = "f",
          .machine = {.cpu = "a processor", .cores = 2, .memory_bytes = 1024, .kernel = "Linux 6"},
          .config = {{"lr", 0.5}},
          .version = "1.2.3",
          .emulated = Emulated{2,
                               "1gbit",
                               {{.host = 1,
                                 .ranks = {1, 3},
                                 .bytes_sent = 1,
                                 .packets_sent = 2,
                                 .bytes_received = 3,
                                 .packets_received = 4,
                                 .packets_dropped = 5}}},
          .rejected_connections = 9};
}

std::vector<std::string> keys_of(const nlohmann::json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

// In their order in the file.
const std::vector<std::string> kAlways = {
    "batch_per_worker",
    "bytes_sent_per_server",
    "bytes_sent_per_worker",
    "checkpoint_copy_ms",
    "checkpoint_hold_ms",
    "collectives",
    "compute_ms",
    "config",
    "data",
    "data_sha256",
    "dropped_workers",
    "exchange_ms",
    "exposed_exchange_ms",
    "finite_check_ms",
    "gradients_per_second",
    "initial_parameters_sha256",
    "machine",
    "model",
    "pace_ms",
    "parameter_bytes",
    "parameters_sha256",
    "peak_memory_bytes",
    "replicas_sha256",
    "reproducible",
    "restarts",
    "sample_ledger",
    "samples_per_second",
    "samples_sha256",
    "seed",
    "servers",
    "skipped_steps",
    "slow",
    "step_ms",
    "steps",
    "steps_per_second",
    "steps_per_worker",
    "strategy",
    "test_accuracy",
    "test_loss",
    "train_loss",
    "version",
    "wall_seconds",
    "workers",
};

std::vector<std::string> and_also(std::vector<std::string> keys) {
  keys.insert(keys.end(), kAlways.begin(), kAlways.end());
  std::ranges::sort(keys);
  return keys;
}

TEST(Summary, KeysThatEveryRunHas) {
  const nlohmann::json json = Summary{};
  EXPECT_EQ(keys_of(json), kAlways);
  EXPECT_EQ(json["bytes_sent_per_server"], 0);
  for (const char* key : {"train_loss", "test_loss", "test_accuracy"})
    EXPECT_TRUE(json[key].is_null()) << key;
  for (const char* key : {"dropped_workers", "collectives"}) EXPECT_TRUE(json[key].is_array()) << key;
  EXPECT_EQ(keys_of(json["step_ms"]), (std::vector<std::string>{"median", "p90"}));
  EXPECT_EQ(keys_of(json["machine"]), (std::vector<std::string>{"cores", "cpu", "kernel", "memory_bytes"}));
}

TEST(Summary, KeysThatAreThereOnlyWhereTheyApply) {
  Summary s;
  s.until.emplace();
  nlohmann::json json = s;
  EXPECT_EQ(keys_of(json), and_also({"target", "reached", "time_to_target_seconds"}));
  EXPECT_TRUE(json["time_to_target_seconds"].is_null());

  s = {};
  s.by_servers.emplace();
  json = s;
  EXPECT_EQ(keys_of(json),
            and_also({"pieces_applied", "pieces_dropped", "pieces_repeated", "max_lead", "staleness"}));
  EXPECT_EQ(keys_of(json["staleness"]), (std::vector<std::string>{"histogram", "max", "mean"}));
  EXPECT_TRUE(json["staleness"]["histogram"].is_object()) << "also where it is empty";

  s = {};
  s.emulated.emplace().per_host.emplace_back();
  json = s;
  EXPECT_EQ(keys_of(json), and_also({"emulated"}));
  EXPECT_EQ(keys_of(json["emulated"]), (std::vector<std::string>{"hosts", "link", "per_host"}));
  EXPECT_EQ(keys_of(json["emulated"]["per_host"][0]),
            (std::vector<std::string>{"bytes_received", "bytes_sent", "host", "packets_dropped",
                                      "packets_received", "packets_sent", "ranks"}));

  s = {};
  s.partition_search.emplace();
  json = s;
  EXPECT_EQ(keys_of(json), and_also({"partition_search"}));
  EXPECT_EQ(keys_of(json["partition_search"]), std::vector<std::string>{"trials"})
      << "nothing is decided yet";
}

TEST(Summary, KeysOfAllThatThereCanBe) {
  const nlohmann::json json = with_everything();
  EXPECT_EQ(keys_of(json),
            and_also({"words_per_second", "test_top5", "test_perplexity", "target", "reached",
                      "time_to_target_seconds", "restart_causes", "pieces_applied", "pieces_dropped",
                      "pieces_repeated", "max_lead", "staleness", "routes", "partitions", "partition_search",
                      "model_sha256", "emulated", "rejected_connections"}));
  EXPECT_EQ(json["bytes_sent_per_server"], 77);
  EXPECT_EQ(json["target"], (nlohmann::json{{"figure", "accuracy"}, {"value", 0.9}}));
  EXPECT_EQ(json["staleness"]["histogram"], (nlohmann::json{{"0", 4}, {"10", 6}}));
  EXPECT_EQ(keys_of(json["partition_search"]), (std::vector<std::string>{"chosen", "reason", "trials"}));
  EXPECT_EQ(keys_of(json["collectives"][0]),
            (std::vector<std::string>{"algorithm", "bytes", "operation", "reason"}));
  EXPECT_EQ(json["restart_causes"],
            nlohmann::json::parse(R"([{"because": "rank 1 was killed", "from_step": 20}])"));
}

TEST(Summary, EveryFieldSurvivesTheWayThroughTheFile) {
  const ScratchFolder folder;
  const Summary before = with_everything();
  const nlohmann::json json = before;
  const nlohmann::json plain = Summary{};
  for (const auto& [key, value] : plain.items()) EXPECT_NE(json[key], value) << key << " is as in a new one";
  write_summary(folder.path(), before);
  EXPECT_EQ(read_summary(folder.path()), before);
  EXPECT_EQ(read_summary_json(folder.path()), json);
  write_summary(folder.path(), Summary{});
  EXPECT_EQ(read_summary(folder.path()), Summary{});
}

TEST(Summary, WhatIsNoNumberIsNullAndStaysIt) {
  const ScratchFolder folder;
  Summary s;
  s.train_loss = std::nan("");
  s.test["loss"] = s.test["perplexity"] = HUGE_VAL;
  s.compute_ms = std::nan("");
  write_summary(folder.path(), s);
  const auto once = read_file(folder.path() / kSummaryFile);
  write_summary(folder.path(), read_summary(folder.path()));
  EXPECT_EQ(read_file(folder.path() / kSummaryFile), once);
  for (const char* key : {"train_loss", "test_loss", "test_perplexity", "compute_ms"}) {
    EXPECT_TRUE(read_summary_json(folder.path()).at(key).is_null()) << key;
  }
}

TEST(Summary, TheLauncherAddsItsPartAndChangesNothingElse) {
  const ScratchFolder folder;
  Summary s = with_everything();
  const auto emulated = std::exchange(s.emulated, std::nullopt);
  s.rejected_connections.reset();
  write_summary(folder.path(), s);
  add_to_summary(folder.path(), emulated, 9);
  EXPECT_EQ(read_summary(folder.path()), with_everything());
  EXPECT_THROW(add_to_summary(folder.path() / "nowhere", emulated, 9), DataError);
}

TEST(Summary, WhatIsNoneIsRefusedByFileAndKey) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& text) -> std::string {
    write_file_atomically(folder.path() / kSummaryFile, text);
    try {
      read_summary(folder.path());
    } catch (const DataError& e) {
      const std::string said = e.what();
      const auto file = (folder.path() / kSummaryFile).string() + ": ";
      EXPECT_TRUE(said.starts_with(file)) << said;
      return said.substr(std::min(said.size(), file.size()));
    }
    return "read as a summary";
  };
  EXPECT_NE(refusal("{").find("parse error"), std::string::npos);
  EXPECT_EQ(refusal("[]"), "no summary of a run: it is an array, not an object");
  EXPECT_EQ(refusal("{}"), "no summary of a run: 'model' is not there");

  const nlohmann::json whole = with_everything();
  const auto with = [&](const char* at, const nlohmann::json& value) {
    auto json = whole;
    json[nlohmann::json::json_pointer(at)] = value;
    return refusal(json.dump());
  };
  EXPECT_EQ(with("/workers", "two"),
            "no summary of a run: 'workers' is a string, not a whole number from 0 to 2147483647");
  EXPECT_EQ(with("/workers", -1),
            "no summary of a run: 'workers' is -1, not a whole number from 0 to 2147483647");
  EXPECT_EQ(with("/workers", 4'294'967'298),
            "no summary of a run: 'workers' is 4294967298, not a whole number from 0 to 2147483647");
  EXPECT_EQ(with("/steps", 1.5),
            "no summary of a run: 'steps' is 1.5, not a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(with("/samples_per_second", nullptr), "no summary of a run: 'samples_per_second' is not there");
  EXPECT_EQ(with("/step_ms", nlohmann::json::object()), "no summary of a run: 'step_ms.median' is not there");
  EXPECT_EQ(with("/test_top5", "good"), "no summary of a run: 'test_top5' is a string, not a number");
  EXPECT_EQ(with("/config", "none"), "no summary of a run: 'config' is a string, not an object");
  EXPECT_EQ(with("/replicas_sha256", "a"),
            "no summary of a run: 'replicas_sha256' is a string, not an array");
  EXPECT_EQ(with("/reached", 1), "no summary of a run: 'reached' is 1, not true or false");
  EXPECT_EQ(with("/emulated/per_host/0/ranks/1", "x"),
            "no summary of a run: 'emulated.per_host[0].ranks[1]' is a string, not a whole number from 0 to "
            "2147483647");
  EXPECT_EQ(with("/staleness/histogram/often", 1),
            "no summary of a run: 'staleness.histogram' has the key 'often', which is no whole number");
}

TEST(Summary, OfAnEarlierVersionMayLackKeysAndOfALaterOneHaveMore) {
  const auto old = nlohmann::json::parse(R"({
    "model": "net", "data": "made up", "strategy": "ring", "workers": 2, "steps": 10,
    "samples_per_second": 1, "step_ms": {"median": 1}, "exchange_ms": 1, "exposed_exchange_ms": 0,
    "bytes_sent_per_worker": 1000, "parameters_sha256": "a", "replicas_sha256": ["a", "a"],
    "config": {}, "of_tomorrow": {"x": 1}})");
  const ScratchFolder folder;
  write_file_atomically(folder.path() / kSummaryFile, old.dump());
  const Summary s = read_summary(folder.path());
  EXPECT_EQ(s.samples_per_second, 1);
  EXPECT_EQ(s.test, Summary{}.test);
  EXPECT_FALSE(s.until || s.by_servers || s.emulated || s.rejected_connections);
  EXPECT_EQ(read_summary_json(folder.path()), old);
}

TEST(Summary, ReplicasThatDifferAreSeen) {
  Summary s;
  s.parameters_sha256 = "a";
  s.replicas_sha256 = {"a", "a"};
  EXPECT_TRUE(replicas_agree(s));
  s.replicas_sha256[1] = "b";
  EXPECT_FALSE(replicas_agree(s));
}

TEST(Summary, SaysWhatMakesARunNoPlainTraining) {
  EXPECT_EQ(conditions_of({}), "");
  EXPECT_EQ(conditions_of(with_everything()), "paced at 20 ms, slowed 1:5, emulated hosts=2,link=1gbit");
  Summary flipped;
  flipped.config = {{"flip_bit", "1:2:w:3:4"}};
  EXPECT_EQ(conditions_of(flipped), "a bit flipped at 1:2:w:3:4");
}

}  // namespace
}  // namespace tutti::observe
