// What libtutti.so shows of itself.
#pragma once

#define TUTTI_API __attribute__((visibility("default")))
// For a part of a public class that nobody outside has to see.
#define TUTTI_HIDDEN __attribute__((visibility("hidden")))
