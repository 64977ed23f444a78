// Compares the complete messages about broken meshes with the expected ones.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "devices/profiles.h"
#include "parse/render.h"
#include "yaml/read.h"

namespace shardc {
namespace {

struct Case {
  std::string_view kind;
  std::string_view text;
  // After the first line break. PROFILES stands for the names of all profiles.
  std::string_view said;
};

constexpr Case kCases[] = {
    {"mesh", "",
     R"(
-: error: the file holds no document [empty]
)"},
    {"mesh", "# nothing\n",
     R"(
-: error: the file holds no document [empty]
)"},
    {"mesh", ",\n",
     R"(
1:1: error: `,` begins nothing that is YAML [yaml-syntax]
)"},
    {"mesh", "axes: {dp: 2} trailing\n",
     R"(
1:15: error: text after a whole value [yaml-syntax]
    remove it, or quote the whole value
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "---\n"
     "axes: {tp: 2}\n",
     R"(
2:1: error: a second document begins here [multi-document]
    keep one document in a file
)"},
    {"mesh",
     "axes:\n"
     "  'dp: 2\n"
     "  tp: 4\n",
     R"(
2:3: error: the quote `'` is never closed [yaml-syntax]
    close it on the same line
)"},
    {"mesh", "axes: {dp: 2, , tp: 4}\n",
     R"(
1:15: error: nothing stands before this `,` [yaml-syntax]
    remove the comma, or write `null`
)"},
    {"mesh", "axes: {dp: 2\n",
     R"(
1:7: error: the bracket `{` is never closed [yaml-syntax]
    close it with `}`
)"},
    {"mesh", "axes: {dp: 2]\n",
     R"(
1:13: error: this bracket closes nothing [yaml-syntax]
    remove it, or close the bracket that is open before it
)"},
    {"mesh",
     "axes:\n"
     "\tdp: 2\n",
     R"(
2:1: error: a tab is used as indentation [yaml-syntax]
    indent with spaces
)"},
    {"mesh",
     "axes:\n"
     "\302\240 dp: 2\n",
     R"(
2:1: error: a blank that is not a space [yaml-syntax]
    use spaces
)"},
    {"mesh",
     "axes:\n"
     "  dp: 2\n"
     " tp: 4\n",
     R"(
3:2: error: this line is neither the next key of what stands above nor inside it [yaml-syntax]
    give it the same indentation as the keys above
)"},
    {"mesh", "axes: dp: 2\n",
     R"(
1:9: error: this `:` follows nothing that can be a key [yaml-syntax]
    quote a text that holds `: `, fix the indentation, or end the key above with `:`
)"},
    {"mesh", "axes: 'x' y\n",
     R"(
1:11: error: text after a whole value [yaml-syntax]
    remove it, or quote the whole value
)"},
    {"mesh", "axes: @x\n",
     R"(
1:7: error: no value can begin with `@` [yaml-syntax]
    quote the text
)"},
    {"mesh", "axes: ]\n",
     R"(
1:7: error: this bracket closes nothing [yaml-syntax]
    remove it, or close the bracket that is open before it
)"},
    {"mesh", "axes: *nope\n",
     R"(
1:7: error: this alias refers to no anchor before it [yaml-syntax]
    quote a text that begins with `*`
)"},
    {"mesh", "axes: &a [*a]\n",
     R"(
1:11: error: alias `*a` stands inside what it refers to [yaml-alias]
    write the value out
)"},
    {"mesh", "axes: !!set {dp}\n",
     R"(
1:7: error: a tag: `!!set` [yaml-tag]
    remove the tag
)"},
    {"mesh", "axes: {<<: {dp: 2}}\n",
     R"(
1:8: error: merge key `<<` [merge-key]
    write the keys out
)"},
    {"mesh", "axes: {dp: 2, dp: 4}\n",
     R"(
1:15: error: key `dp` is given twice [duplicate-key]
    1:8: first given here
    remove one of the two
)"},
    {"mesh", "axes: {d\303: 2}\n",
     R"(
1:9: error: byte 0xc3 is not UTF-8 [encoding]
    save the file as UTF-8
)"},
    {"mesh", "axes: {dp: 2}\r\rdevices: 2\n",
     R"(
1:14: error: a carriage return without a line feed [encoding]
    end lines with a line feed
)"},
    {"mesh", "- 1\n",
     R"(
1:1: error: a mesh is a list, not a mapping [schema]
    its keys are `axes`, `devices`, `axis_types`, `processes`, `slices`, `dcn` and `device`
)"},
    {"mesh", "axis: {dp: 2}\n",
     R"(
1:1: error: unknown key `axis` in a mesh [unknown-key]
    did you mean `axes`?
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "zebra: 1\n",
     R"(
2:1: error: unknown key `zebra` in a mesh [unknown-key]
    the keys of a mesh are `axes`, `devices`, `axis_types`, `processes`, `slices`, `dcn` and `device`
)"},
    {"mesh", "axes: {}\n",
     R"(
1:7: error: `axes` names no axis [schema]
    write `axes: {dp: 2, tp: 4}`
)"},
    {"mesh", "axes: [2, 4]\n",
     R"(
1:7: error: `axes` is a list, not a mapping of names to sizes [schema]
    write `axes: {dp: 2, tp: 4}`
)"},
    {"mesh", "axes: {'': 2, d p: 3, 1: 4, _: 2, ~: 5}\n",
     R"(
1:8: error: the name of an axis is an empty string [axis-name]
    write a name
1:15: error: axis name `d p` holds something else than letters, digits, `_`, `-` and `.` [axis-name]
1:23: error: axis name `1` does not begin with a letter [axis-name]
1:29: error: axis name `_` means no axis [axis-name]
1:35: error: the name of an axis is null [axis-name]
    write a name
)"},
    {"mesh",
     "axes: {a: 0x10, b: '8', c: 1e3, d: 010, e: ~, f: true, g: 0, h: -2, i: "
     "9223372036854775808, j: !!int 4}\n",
     R"(
1:11: error: the size of axis `a` is `0x10`, which is not a decimal integer [number]
    write plain decimal digits, such as 16
1:20: error: the size of axis `b` is the string `8`, not an integer [number]
    write it without quotes
1:28: error: the size of axis `c` is `1e3`, which is not a decimal integer [number]
    write plain decimal digits, such as 16
1:36: error: the size of axis `d` is `010`, an integer with a leading zero [number]
    write plain decimal digits, such as 16
1:44: error: the size of axis `e` is null, not an integer [number]
    write plain decimal digits, such as 16
1:50: error: the size of axis `f` is `true`, which is not a decimal integer [number]
    write plain decimal digits, such as 16
1:59: error: the size of axis `g` is 0 [number]
    a size is 1 or more, or -1 for what remains
1:65: error: the size of axis `h` is -2 [number]
    a size is 1 or more, or -1 for what remains
1:72: error: the size of axis `i` is `9223372036854775808`, which does not fit in 64 bits [number]
1:102: error: the size of axis `j` is tagged `!!int` [number]
    remove the tag
)"},
    {"mesh", "axes: {dp: -1, tp: -1}\n",
     R"(
1:20: error: the sizes of both `dp` and `tp` are -1 [number]
    1:12: the first is here
    one size at most can be -1
)"},
    {"mesh", "axes: {dp: -1}\n",
     R"(
1:12: error: the size of axis `dp` is -1, and the device count is not given [device-count]
    give `devices` in the mesh, or --devices
)"},
    {"mesh",
     "axes: {dp: -1, tp: 4}\n"
     "devices: 6\n",
     R"(
2:10: error: 6 devices cannot be divided by 4 to give axis `dp` its size [device-count]
    give other sizes, or a number of devices that 4 divides
)"},
    {"mesh",
     "axes: {dp: 2, tp: 4}\n"
     "devices: 16\n",
     R"(
2:10: error: the axes make 2 * 4 = 8 devices, not 16 [device-count]
    make one axis -1 to let it take what remains
)"},
    {"mesh",
     "axes: {dp: 3, tp: 2}\n"
     "devices: 8\n",
     R"(
2:10: error: the axes make 3 * 2 = 6 devices, not 8 [device-count]
    make `dp` -1 to let it take what remains
)"},
    {"mesh",
     "axes: {dp: 2, tp: 4}\n"
     "devices: 7\n",
     R"(
2:10: error: the axes make 2 * 4 = 8 devices, not 7 [device-count]
    give sizes whose product is 7
)"},
    {"mesh", "axes: {a: 4294967296, b: 4294967296}\n",
     R"(
1:26: error: with axis `b` of size 4,294,967,296 the device count does not fit in 64 bits [overflow]
)"},
    {"mesh",
     "axes: {dp: 2, tp: 4}\n"
     "processes: 3\n",
     R"(
2:12: error: 8 devices cannot be divided among 3 processes [device-count]
)"},
    {"mesh",
     "axes: {dp: 3, tp: 5}\n"
     "slices: 2\n",
     R"(
2:9: error: 15 devices cannot be divided among 2 slices [device-count]
)"},
    {"mesh",
     "axes: {dp: 2, fsdp: 2, tp: 3}\n"
     "slices: 4\n",
     R"(
2:9: error: no axis can be divided among 4 slices [device-count]
    divide the slices among several axes, such as `dcn: {dp: 2, fsdp: 2}` for 4 slices
)"},
    {"mesh",
     "axes: {dp: 4, tp: 4}\n"
     "slices: 2\n"
     "dcn: {dp: 4}\n",
     R"(
3:6: error: the factors of `dcn` make 4, and there are 2 slices [device-count]
    the product of the factors is the number of slices
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "dcn: {pd: 2}\n"
     "axis_types: {dp: automatic}\n",
     R"(
2:7: error: `dcn` names `pd`, which is no axis of this mesh [reference]
    the axes are `dp`
3:18: error: the type of an axis is the string `automatic` [schema]
    it can be `auto`, `explicit` or `manual`
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "device: {memory: 80 gigs}\n",
     R"(
2:18: error: `memory` is `80 gigs`, not a size in bytes [number]
    write a number and a unit, such as `80GiB`
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "device: h100-80g\n",
     R"(
2:9: error: no accelerator is called `h100-80g` [reference]
    did you mean `h100-80gb`?
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "device: a100\n",
     R"(
2:9: error: no accelerator is called `a100` [reference]
    there are `a100-40-sxm` and `a100-80-sxm`
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "device: h200\n",
     R"(
2:9: error: no accelerator is called `h200` [reference]
    did you mean `h200-sxm`?
)"},
    {"mesh",
     "axes: {dp: 2}\n"
     "device: {profile: cerebras, memory: 80GiB}\n",
     R"(
2:19: error: no accelerator is called `cerebras` [reference]
    the profiles are PROFILES; another one is `device: {memory: 80GiB}`
)"},
    {"text", "dp:2,tp",
     R"(
1:6: error: entry `tp` is no axis with a size [schema]
    write `name:size`, such as `dp:2,tp:4`
)"},
    {"text", "dp:2,,tp:4",
     R"(
1:6: error: an empty entry between commas [schema]
    write `name:size`, such as `dp:2,tp:4`
)"},
    {"text", "dp:2,dp:4",
     R"(
1:6: error: axis `dp` is given twice [duplicate-key]
    1:1: first given here
    remove one of the two
)"},
    {"text", "dp:x,4:2",
     R"(
1:4: error: the size of axis `dp` is `x`, which is not a decimal integer [number]
    write plain decimal digits, such as 16
1:6: error: axis name `4` does not begin with a letter [axis-name]
    write `name:size`, such as `dp:2,tp:4`
)"},
    {"text", "4:x",
     R"(
1:1: error: axis name `4` does not begin with a letter [axis-name]
    write `name:size`, such as `dp:2,tp:4`
)"},
    {"text", "{\"dp\": 2, \"tp\": 4}",
     R"(
1:1: error: `{"dp": 2, "tp": 4}` is YAML or JSON, not axes with sizes [schema]
    write `dp:2,tp:4`, or give the name of a YAML file
)"},
    {"text", "axes: {dp: 2}",
     R"(
1:1: error: `axes: {dp: 2}` is YAML or JSON, not axes with sizes [schema]
    write `dp:2,tp:4`, or give the name of a YAML file
)"},
};

TEST_CASE("messages about broken YAML and meshes") {
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    std::string expected(test.said);
    const size_t at = expected.find("PROFILES");
    if (at != std::string::npos) expected.replace(at, 8, Listed(DeviceNames()));
    CHECK("\n" + FindingsOf(test.kind, test.text) == expected);
  }
}

}  // namespace
}  // namespace shardc
