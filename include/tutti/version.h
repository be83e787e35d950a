// Which tutti this is. Before 1.0 a minor version may change anything; libtutti.so.0.1 is the one for 0.1.*.
#pragma once

#define TUTTI_VERSION "0.1.0"
