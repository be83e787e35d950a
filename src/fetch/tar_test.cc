#include "fetch/tar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/idx_fixture.h"
#include "fetch/tar_fixture.h"

namespace tutti::fetch {
namespace {

using namespace data::fixture;
using namespace fixture;

std::string tar_error(std::string_view archive) {
  return error_of<DataError>([&] { list_tar(as_bytes(archive), "a.tar"); });
}

TEST(Tar, FindsRegularMembersByBaseName) {
  const std::string archive = tar_member("package/", "", '5') + tar_member("x", "path=long", 'x') +
                              tar_member("../../etc/link", "", '2') +
                              tar_of({{"package/data/a", "first"}, {"b", ""}, {"c", std::string(600, 'c')}});
  ASSERT_TRUE(is_tar(as_bytes(archive)));
  const auto members = list_tar(as_bytes(archive), "a.tar");
  ASSERT_EQ(members.size(), 3u);
  const TarMember* a = find_member(members, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a->content.data()), a->content.size()), "first");
  EXPECT_EQ(find_member(members, "c")->content.size(), 600u);
  EXPECT_EQ(find_member(members, "link"), nullptr);
}

TEST(Tar, ANameThatFillsItsFieldIsRead) {
  const std::string name(100, 'n');
  const std::string archive = tar_of({{name, "x"}});
  EXPECT_EQ(list_tar(as_bytes(archive), "a.tar").at(0).base_name, name);
}

TEST(Tar, RefusesDamageAndTruncation) {
  const std::string archive = tar_of({{"a", "first"}});
  EXPECT_EQ(tar_error(archive.substr(0, 100)),
            "a.tar: offset 0 of the archive: the archive ends inside a header");
  EXPECT_EQ(tar_error(archive.substr(0, 514)),
            "a.tar: offset 512 of the archive: the archive ends inside a member of 5 bytes");
  std::string damaged = archive;
  damaged[0] = 'b';
  EXPECT_FALSE(is_tar(as_bytes(damaged)));
  EXPECT_EQ(tar_error(damaged), "a.tar: offset 0 of the archive: not a tar header: its checksum is wrong");
}

TEST(Tar, OtherFilesAreNoTar) {
  EXPECT_FALSE(is_tar(as_bytes(images_idx(200))));
  EXPECT_FALSE(is_tar({}));
}

}  // namespace
}  // namespace tutti::fetch
