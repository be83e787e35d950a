// A model and its optimizer as one of N: every process computes gradients of its own samples, and a strategy
// makes one model of them.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "tutti/export.h"
#include "tutti/hook.h"
#include "tutti/session.h"

namespace tutti {

struct DistributedOptions {
  // local, ring, allreduce, reduce-broadcast, ps-sync, ps-async, ps-ssp, hybrid, hogwild, easgd, local-sgd:
  // as `tutti train --strategy`.
  std::string strategy = "allreduce";
  int servers = 0;                     // ps-*, hybrid: each lives in one of the processes; 0: in every one
  int staleness = 3;                   // ps-ssp: steps that a worker may be ahead
  std::int64_t sync_every = 8;         // easgd, local-sgd: steps between synchronisations
  double moving_rate = 0;              // easgd; 0: 0.9 / processes
  double clip_norm = 0;                // largest L2 norm of the mean gradient; 0: no limit
  bool skip_nonfinite = false;         // a step with a NaN or infinite number is left out; else it throws
  std::size_t bucket_bytes = 1 << 20;  // gradients leave in buckets of about this size
  // Processes may make different numbers of steps: one that calls finish() early goes on with the others,
  // bringing nothing, until all have; means are over those that bring something. Costs a short message a
  // step; when one has finished, save() throws until all have. Not for hybrid, easgd, local-sgd and
  // strategies of one's own.
  bool uneven_inputs = false;
  // How the gradients of a bucket are averaged under ring, allreduce or reduce-broadcast (tutti/hook.h);
  // null: by the strategy's own all-reduce.
  std::shared_ptr<Hook> hook = nullptr;
  // A folder that save() wrote into, or one step folder in it: the training goes on from the newest whole
  // checkpoint there, where rank 0 sees it, and warns of damaged ones after it. Empty: it begins. See save().
  std::string resume = {};
  // A step's samples are cut into so many shards, whoever computes them: each process those that shards()
  // gives it, one after another. What they bring is added up in one order, so that a training has the same
  // bits at every number of processes up to so many, and under each of local, ring, allreduce,
  // reduce-broadcast, ps-sync and hybrid. 0: every process brings one gradient a step, and the number of
  // processes decides how they are added up. Not with a hook or uneven_inputs.
  //
  // All shards count alike: the loss of one is the mean over its samples. Where they differ in size, as at
  // the end of the data, multiply it by
  //
  //     samples of the shard * shards / samples of the step
  //
  // The constructor makes torch compute with one thread (torch::set_num_threads), for how a product is cut
  // into several decides its bits. Who wants more sets the same number in every run, after the constructor.
  // With clip_norm bits depend on bucket_bytes, too. A process has memory for a few more gradients, at most
  // twice the logarithm of `shards`; embedding tables travel whole.
  int shards = 0;
  std::uint64_t seed = 1;  // shards: of what torch draws in each of them, such as dropout
};

// What a process computes of a step that is cut.
class Shards;

// While one lives, gradients add up here and nothing leaves.
class NoSync;

// One thread uses it; the session, the module and the optimizer outlive it. There may be several in a
// program, of several models.
//
// From the constructor on parameters and gradients of the module are views of flat memory, and all processes
// have those of rank 0. When it is gone they lie in memory of their own again, without gradients (under
// hogwild a graph from before must not be used then). Gradients leave while backward still computes: between
// backward and step() they are neither here nor there, and must be neither read nor changed (for
// clip_grad_norm_ there is clip_norm). step() takes the place of the optimizer's own.
//
// SGD, Adam, AdamW, RMSprop and Adagrad of torch, with the same numbers for all parameters, run as flat
// loops, on servers, too; the state is then kept here and not in the optimizer. Any other optimizer is called
// as it is, once all gradients are there; a strategy whose servers update refuses it. The learning rate is
// read from the optimizer when the first gradient of a step is final (with shards when the first of them
// begins), so schedulers work; that a flat loop's other numbers, or the rates of single groups, have changed
// since is refused.
//
// What fails while a hook of backward runs is thrown by backward. After a failure only the destructor may be
// called. A failure of save() is an exception to that: unless it is a PeerError, the training can go on.
class TUTTI_API Distributed {
 public:
  // A collective call. Throws where the strategy does not exist or does not fit, saying why, and where the
  // checkpoint to go on from is missing, damaged, or of another model or optimizer: in every process, naming
  // the file and what differs in it. The module's values are not to be relied on then.
  Distributed(Session& session, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
              const DistributedOptions& options = {});
  // Finishes, unless an exception is on its way.
  ~Distributed();
  Distributed(const Distributed&) = delete;
  Distributed& operator=(const Distributed&) = delete;

  // Ends a step: waits for what is still on its way, and updates the parameters as the strategy promises. A
  // parameter that has got no gradient in this step counts as zero here and as what the others have.
  // What it trains has no gradients after it: grad() is undefined, as after a current libtorch's zero_grad().
  // With shards gradients are zero after it, and it throws ConfigError where one of this process's has not
  // been computed.
  void step();

  // Those of a step that this process computes; the same in every step. Throws ConfigError where
  // DistributedOptions::shards is 0.
  Shards shards();

  // For all but the last backward pass of a step, or of a shard, and for one whose gradients are thrown away.
  [[nodiscard]] NoSync no_sync();

  // Writes a checkpoint, FOLDER/checkpoints/step-N, for DistributedOptions::resume: parameters, trained or
  // not, buffers, the optimizer's state, and the number of steps. A collective call between two steps or
  // after finish(), with the same folder in every process; blocks until it is on the disk, which all must
  // reach. It changes nothing: a training that goes on from it computes the same bits as this one would,
  // wherever processes keep step.
  //
  // The checkpoint appears whole or not at all. If one process cannot write, or has a NaN in its model or an
  // infinite number in its optimizer's state, every process throws; older checkpoints are whole then, and the
  // training may go on. Checkpoints of later steps in the folder belong to another training and become
  // step-N.superseded; give each Distributed a folder of its own.
  //
  // What is the user's stays so: settings of the optimizer, such as the learning rate, are those that the
  // program gives it, and a hook or a strategy of one's own begins anew. An optimizer that is called as it is
  // writes its state by its own save() and reads it by its load(). With another number of processes a
  // training goes on with another division of the samples; not under easgd and local-sgd, where every process
  // has a replica of its own. With shards no sample changes its place: it goes on, and ends, with the same
  // bits, at another number of processes and under another strategy, too; shards and seed must be as they
  // were.
  void save(const std::string& folder);

  // A collective call, after the last step: on return all processes have the same parameters. There are no
  // steps after.
  void finish();

  // Of one process, so far; steps() counts those before the checkpoint that it went on from, too.
  std::int64_t steps() const;
  std::uint64_t bytes_sent() const;

 private:
  friend class NoSync;
  friend class Shards;
  class TUTTI_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

// The shards of a step that a process computes (DistributedOptions::shards), for one loop a step:
//
//   for (const int shard : training.shards()) loss_of(net, samples_of(shard)).backward();
//   training.step();
//
// The loop itself begins each shard and ends it: none can be forgotten, taken twice or come in another order,
// and there is no object that a program could hold for too long.
//
// A shard begins with torch's generators seeded by (seed, step, shard), as `tutti train` does, and so draws
// the same whoever computes it; nobody restores them afterwards. It also begins with the module's buffers as
// they were before the step. After step() every process has their mean over all shards, of what is counted
// the largest: batch norm's statistics are those of all samples.
//
// A shard has one backward pass, or several of which all but the last hold a no_sync(). One without samples
// has none, and counts as a gradient of zero. Gradients of a process's last shard leave during its backward
// pass; those before it are only added up.
//
// backward throws ConfigError outside of the loop, unless a no_sync() says that its gradients are thrown
// away. After a loop that was left early (break, an exception) another one and step() throw ConfigError.
// Ranks that are threads of one process share torch's generators, and must not draw at the same time.
class TUTTI_API Shards {
 public:
  class TUTTI_API Iterator {
   public:
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    int operator*() const { return shard_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return shard_ == end_; }

   private:
    friend class Shards;
    Iterator(Distributed& training, int first, int end);
    Distributed* training_;
    int shard_;
    int end_;
  };

  // The first shard begins.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  // For who loads samples ahead: the shards are first(), first() + 1, ..., and so many. Nothing begins.
  int first() const { return first_; }
  int count() const { return count_; }

 private:
  friend class Distributed;
  Shards(Distributed& training, int first, int count) : training_(&training), first_(first), count_(count) {}
  Distributed* training_;
  int first_;
  int count_;
};

class TUTTI_API NoSync {
 public:
  explicit NoSync(Distributed& training);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Distributed& training_;
};

}  // namespace tutti
