#include "source/digest.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

namespace shardc {
namespace {

TEST_CASE("digests of the standards' own examples") {
  // The digests are from FIPS 180-2, appendix B, and RFC 1321, appendix A.5.
  CHECK(HexDigest("sha256", "abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(HexDigest("md5", "abc") == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(HexDigest("sha1", "abc") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(HexDigest("sha3_256", "").value().size() == 64);
  CHECK_FALSE(HexDigest("no-such-digest", "abc").has_value());
}

TEST_CASE("digests of inputs around each block size equal those of hashlib") {
  struct Expected {
    std::string_view algorithm;
    std::string_view hex;  // by hashlib, the same loop in Python
  };
  for (const Expected& expected : std::to_array<Expected>({
           {"md5",
            "3230648817dff8f5821ed2b7c16cd42e9f8a147add615bae5cf9f44c8314de3c"},
           {"sha1",
            "ddcccf7ba8ec759728ff3ae36ceb8541a3204137000c043cea4e31229d7ab629"},
           {"sha224",
            "9aec1ec7de41862be5daf62f4ed89a9dc4e7786ff4124b26a07fd32df3d740ea"},
           {"sha256",
            "78fc9a7acc5f005302c144aceab8daa5b2c98df90b4404dd47370c4b3ace05e3"},
           {"sha384",
            "d6ff1e14943f4e0953de79682e90278e10b44374c17de923336391815020de19"},
           {"sha512",
            "a9afb795d0ad8f1c9d777d402383d6901bd37aeaf3d609354e91da1e93d00f3f"},
           {"sha3_224",
            "2f0dc8b817f454e0643b9fb184334b00d642dbad3f7fd1704e52335b4aed244d"},
           {"sha3_256",
            "588030dac52f50ffe5b5cd83d1f416a11dc2fc7a14b5aa9178be48a94f716368"},
           {"sha3_384",
            "b3228c63863beff675fb827b3440a829128d6c06e0354cdabfb960d3d6a771d4"},
           {"sha3_512",
            "698c545536226050431aca9674c5913c60494851aaecd03dc90ed2c50f5e3319"},
           {"blake2b",
            "c1559691f4d353335c2a6acfe452c9f815b15d58b94ba216b3e3a999e3fa4ede"},
           {"blake2s",
            "2672a026496693df121d0995266c14cb7f63c8174b6b490abc415561fedc5f6d"},
       })) {
    std::string input, all;
    for (int i = 0; i <= 300; ++i) {
      all += HexDigest(expected.algorithm, input).value();
      input += static_cast<char>((i * i + 7 * i) % 251);
    }
    INFO(expected.algorithm);
    CHECK(Sha256(all) == expected.hex);
  }
}

TEST_CASE("a digest's name may have capitals and a dash, as OpenSSL's have") {
  CHECK(HexDigest("SHA3-256", "abc") == HexDigest("sha3_256", "abc"));
  CHECK(HexDigest("SHA256", "abc") == HexDigest("sha256", "abc"));
}

TEST_CASE("the lengths of some digests are not fixed, so they are unknown") {
  CHECK_FALSE(HexDigest("shake_128", "abc").has_value());
}

}  // namespace
}  // namespace shardc
