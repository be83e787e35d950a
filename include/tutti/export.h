// What libtutti.so shows of itself.
#pragma once

#define TUTTI_API __attribute__((visibility("default")))
