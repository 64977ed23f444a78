#include "fuzz/reading.h"

#include <sys/mman.h>
#include <unistd.h>

#include "emit/findings/formats.h"
#include "source/sink.h"
#include "source/utf8.h"

namespace shardc::fuzz {

void CheckFindings(const Findings& findings) {
  for (const Finding& finding : findings.all()) {
    const Place& place = finding.place;
    if (!place.HasPosition()) continue;
    const size_t size = place.source->text().size();
    Require(place.begin <= place.end && place.end <= size,
            "a place in the text");
  }
  const FindingReport report{findings.all(), {}, {false}, {}};
  for (const auto write : {FindingsText, FindingsJson}) {
    const std::string text = TextOf([&](Sink& out) { write(report, out); });
    Require(IsUtf8(text), "messages in UTF-8");
    for (const char c : text) {
      Require(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t',
              "no control characters");
    }
  }
}

MemoryFile::MemoryFile(std::string_view bytes)
    : fd_(::memfd_create("fuzz", 0)) {
  Require(fd_ >= 0, "a file in memory");
  Require(::pwrite(fd_, bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()),
          "a file in memory");
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}

MemoryFile::~MemoryFile() { ::close(fd_); }

}  // namespace shardc::fuzz
