// What `tutti launch` does for programs of others, here and on other hosts.
#pragma once

#include "launch/launcher.h"

namespace tutti::cli {

// Variables that suit `processes` processes of this host which train, but for those that the spec or this
// process's environment has.
void add_environment(launch::JobSpec& spec, int processes);

}  // namespace tutti::cli
