// Implements the public list of findings. The list stores findings in the
// library's internal type, which includes the source texts, because some output
// formats quote lines of the source. `at` converts one finding to the public
// type.
#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include "emit/findings/formats.h"
#include "shardc/findings.h"
#include "shardc/version.h"

namespace shardc::v1 {
namespace {

FoundAt FoundAtOf(const Place& place) {
  FoundAt out;
  if (place.source == nullptr) return out;
  out.file = place.source->name();
  if (!place.HasPosition()) return out;
  const LineColumn at = place.source->At(place.begin);
  out.line = at.line;
  out.column = at.column;
  return out;
}

}  // namespace

Level LevelOf(shardc::Level level) {
  switch (level) {
    case shardc::Level::kError:
      return Level::kError;
    case shardc::Level::kWarning:
      return Level::kWarning;
    case shardc::Level::kNote:
      return Level::kNote;
  }
  return Level::kError;
}

shardc::Level LevelOf(Level level) {
  switch (level) {
    case Level::kError:
      return shardc::Level::kError;
    case Level::kWarning:
      return shardc::Level::kWarning;
    case Level::kNote:
      return shardc::Level::kNote;
  }
  return shardc::Level::kError;
}

std::string_view Version() { return SHARDC_VERSION; }

Findings::Findings() : inside_(std::make_unique<Inside>()) {}
Findings::~Findings() = default;
Findings::Findings(const Findings& other)
    : inside_(std::make_unique<Inside>(*other.inside_)) {}
// A moved-from object is empty and may be used again.
Findings::Findings(Findings&& other) noexcept
    : inside_(std::make_unique<Inside>()) {
  inside_.swap(other.inside_);
}
Findings& Findings::operator=(const Findings& other) {
  *inside_ = *other.inside_;
  return *this;
}
Findings& Findings::operator=(Findings&& other) noexcept {
  inside_.swap(other.inside_);
  return *this;
}

size_t Findings::size() const { return inside_->all.all().size(); }
bool Findings::HasErrors() const { return inside_->all.HasErrors(); }

Finding Findings::at(size_t index) const {
  const shardc::Finding& from = inside_->all.all()[index];
  Finding out;
  out.code = from.code->Id();
  out.name = from.code->name;
  out.level = LevelOf(from.level);
  out.message = from.message;
  out.place = FoundAtOf(from.place);
  out.help = from.help;
  out.params = from.params;
  return out;
}

std::optional<std::string> Findings::Text(std::string_view format) const {
  const FindingFormat* found = FindFindingFormat(format);
  if (found == nullptr) return std::nullopt;
  const FindingReport report{inside_->all.all(), SHARDC_VERSION, {}, {}};
  return TextOf([&](Sink& out) { found->write(report, out); });
}

}  // namespace shardc::v1
