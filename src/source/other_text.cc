// Recognises merge conflicts and binary files in texts that a parser rejects.
// The parser reports a merge conflict where a key or value is missing, and a
// binary file at its first byte that is not UTF-8. Neither place shows the
// cause, so ReportOtherText reports the cause instead:
//
//   version: 1
//   <<<<<<< HEAD        <- this line is reported
//   rules: []           <- the parser stops here
//   =======
#include "source/other_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace shardc {
namespace {

struct Format {
  std::string_view head;  // the first bytes of the file
  std::string_view message;
  std::string_view help;
};

constexpr std::string_view kConvert =
    "tensors are read from safetensors, GGUF and the checkpoints of orbax, "
    "zarr and PyTorch DCP: convert the file, or list the tensors as JSON";
constexpr std::string_view kDownload = "download the file itself again";

constexpr std::array<Format, 13> kFormats = {{
    {"version https://git-lfs", "this is a Git LFS pointer, not the file",
     "run `git lfs pull` to fetch the file"},
    {"<!DOCTYPE", "this is a web page", kDownload},
    {"<!doctype", "this is a web page", kDownload},
    {"<html", "this is a web page", kDownload},
    {"<?xml", "this is XML", kDownload},
    {"PK\x03\x04",
     "this is a zip archive, such as a file of torch.save or numpy.savez",
     kConvert},
    {"\x93NUMPY", "this is an array of numpy", kConvert},
    {"\x89HDF\r\n\x1a\n", "this is an HDF5 file", kConvert},
    {"\x80\x02", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x03", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x04", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x05", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x89PNG", "this is a picture", kDownload},
}};

// Returns the offset of the first line that begins with `marker`, from `from`
// on, or npos.
size_t FindLine(std::string_view text, std::string_view marker, size_t from) {
  for (size_t at = text.find(marker, from); at != std::string_view::npos;
       at = text.find(marker, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return at;
  }
  return std::string_view::npos;
}

}  // namespace

bool ReportOtherText(const SourceRef& source, Findings& findings,
                     const Code& code) {
  const std::string_view text = source->text();
  for (const Format& format : kFormats) {
    if (!text.starts_with(format.head)) continue;
    findings.Add(code, {source, 0, format.head.size()},
                 std::string(format.message), std::string(format.help));
    return true;
  }
  const size_t begin = FindLine(text, "<<<<<<< ", 0);
  if (begin == std::string_view::npos ||
      FindLine(text, ">>>>>>> ", begin) == std::string_view::npos) {
    return false;
  }
  const size_t end = std::min(text.find('\n', begin), text.size());
  findings.Add(code, {source, begin, end},
               "a merge conflict of Git is not resolved here",
               "keep one of the two versions, and remove the lines that begin "
               "with `<<<<<<<`, `=======` and `>>>>>>>`");
  return true;
}

}  // namespace shardc
