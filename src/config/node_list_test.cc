#include "config/node_list.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti::config {
namespace {

using Names = std::vector<std::string>;

TEST(NodeList, IsReadAsSlurmWritesIt) {
  EXPECT_EQ(parse_node_list("login"), Names{"login"});
  EXPECT_EQ(parse_node_list("a,b"), (Names{"a", "b"}));
  EXPECT_EQ(parse_node_list("gnode[10,20-22]"), (Names{"gnode10", "gnode20", "gnode21", "gnode22"}));
  EXPECT_EQ(parse_node_list("n[08-10].rack,x1"), (Names{"n08.rack", "n09.rack", "n10.rack", "x1"}));
  EXPECT_EQ(parse_node_list("r[1-2]n[3-4]"), (Names{"r1n3", "r1n4", "r2n3", "r2n4"}));
}

TEST(NodeList, MalformedOnesAreRefusedAsTheyAre) {
  for (const char* text :
       {"", ",", "a,", ",a", "n[", "n]", "n[]", "n[1", "n1]", "n[1-]", "n[-1]", "n[2-1]", "n[1-2-3]", "n[a]",
        "n[1,]", "n[[1]]", "n[1]]", "n[0-99999999]", "n[0-999][0-999]"}) {
    try {
      parse_node_list(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tutti::config
