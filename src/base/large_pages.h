// Memory that is read here and there.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti {

// So many zeros, in large pages where the system gives them on request: a table's rows are read in no order,
// and with small pages nearly every one of them would have to be looked up in memory first.
std::vector<float> zeros_in_large_pages(std::size_t count);

}  // namespace tutti
