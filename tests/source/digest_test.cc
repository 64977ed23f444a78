#include "source/digest.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("digests of the standards' own examples") {
  // FIPS 180-2 appendix B, RFC 1321 appendix A.5.
  CHECK(HexDigest("sha256", "abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(HexDigest("md5", "abc") == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(HexDigest("sha1", "abc") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(HexDigest("sha3_256", "").value().size() == 64);
  CHECK_FALSE(HexDigest("no-such-digest", "abc").has_value());
}

}  // namespace
}  // namespace shardc
