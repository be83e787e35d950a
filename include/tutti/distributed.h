// A model and its optimizer as one of N: every process computes gradients of its own samples, and a strategy
// makes one model of them.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
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
  // ring, allreduce, reduce-broadcast: how buckets travel (tutti/hook.h); none: as they are.
  std::shared_ptr<Hook> hook = nullptr;
  // A folder that save() wrote into, or one step folder in it: the training goes on from the newest whole
  // checkpoint there, where rank 0 sees it, and warns of damaged ones after it. Empty: it begins. See save().
  std::string resume = {};
};

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
// read from the optimizer when the first gradient of a step is final, so schedulers work; that a flat loop's
// other numbers, or the rates of single groups, have changed since is refused.
//
// What fails in backward's hooks, backward throws. After a failure nothing but the destructor may be called,
// save() apart, whose failures lose nothing unless they are a PeerError.
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
  // Gradients are zero after it.
  void step();

  // For all but the last backward pass of a step, and for one whose gradients are thrown away.
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
  // has a replica of its own.
  void save(const std::string& folder);

  // A collective call, after the last step: on return all processes have the same parameters. There are no
  // steps after.
  void finish();

  // Of one process, so far; steps() counts those before the checkpoint that it went on from, too.
  std::int64_t steps() const;
  std::uint64_t bytes_sent() const;

 private:
  friend class NoSync;
  class TUTTI_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
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
