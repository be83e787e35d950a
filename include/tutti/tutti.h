// tutti: a libtorch program becomes one of N.
//
//   auto session = tutti::Session::join();
//   torch::optim::Adam adam(model->parameters(), 1e-3);
//   tutti::Distributed training(session, *model, adam, {.strategy = "ring"});
//   for (auto& batch : *loader) {
//     adam.zero_grad();
//     loss(batch).backward();
//     training.step();
//   }
//
// `tutti launch -n 4 -- ./my_program` starts four of it; started by hand it trains alone.
#pragma once

#include "tutti/distributed.h"
#include "tutti/error.h"
#include "tutti/hook.h"
#include "tutti/session.h"
#include "tutti/strategy.h"
#include "tutti/version.h"
#include "tutti/workers.h"
