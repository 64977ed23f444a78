#include "devices/profiles.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "tables.h"

namespace shardc {
namespace {

TEST_CASE("a profile is found by its name and its alias") {
  const DeviceProfile* h100 = FindDeviceProfile("h100-80gb");
  REQUIRE(h100 != nullptr);
  CHECK(h100 == FindDeviceProfile("h100-sxm"));
  CHECK(h100->memory_bytes == 85520809984);
  CHECK(FindDeviceProfile("h100") == nullptr);
  CHECK(FindDeviceProfile("") == nullptr);
}

TEST_CASE("each name belongs to one profile") {
  std::set<std::string_view> seen;
  for (const std::string_view name : DeviceNames()) {
    CHECK(seen.insert(name).second);
    CHECK(FindDeviceProfile(name) != nullptr);
  }
  CHECK(seen.size() >= DeviceProfiles().size());
}

// Compares the profiles with figures that manufacturers publish in another
// form: the rate of all links together, and memory in bytes.
TEST_CASE("the rate of all links is what makers publish") {
  struct Printed {
    std::string_view name;
    double one_way, memory;
  };
  constexpr Printed kPrinted[] = {
      {"a100-40-sxm", 300e9, 42949672960}, {"a100-80-sxm", 300e9, 85899345920},
      {"h100-sxm", 450e9, 85520809984},    {"h200-sxm", 450e9, 150754820096},
      {"b200-hgx", 900e9, 192265846784},   {"b300", 900e9, 270000000000},
      {"gb200", 900e9, 186000000000},      {"gb300", 900e9, 279000000000},
      {"h800-sxm", 200e9, 85520809984},    {"mi300x", 448e9, 206158430208},
      {"tpu-v4", 270e9, 34359738368},      {"tpu-v5e", 200e9, 17179869184},
      {"tpu-v5p", 600e9, 102005473280},    {"tpu-v6e", 400e9, 34359738368},
      {"tpu-7x", 600e9, 206158430208},     {"trn2", 640e9, 103079215104},
  };
  CHECK(DeviceProfiles().size() == std::size(kPrinted));
  for (const Printed& one : kPrinted) {
    CAPTURE(one.name);
    const DeviceProfile* profile = FindDeviceProfile(one.name);
    REQUIRE(profile != nullptr);
    CHECK(profile->link_rate * static_cast<double>(profile->links) ==
          one.one_way);
    CHECK(static_cast<double>(profile->memory_bytes) == one.memory);
  }
}

TEST_CASE("no figure is missing, and narrower dtypes are not slower") {
  for (const DeviceProfile& one : DeviceProfiles()) {
    CAPTURE(one.name);
    CHECK(one.memory_rate > 1e11);
    CHECK(one.bf16_rate > 1e14);
    CHECK(one.fp8_rate.value_or(one.bf16_rate) >= one.bf16_rate);
    CHECK(one.int8_rate.value_or(one.bf16_rate) >= one.bf16_rate);
    CHECK(one.chips_per_host >= 4);
    CHECK(one.host_rate > 1e10);
    CHECK(one.DeviceMemory() * one.devices_per_chip == one.memory_bytes);
  }
}

TEST_CASE("each figure has a source that is listed") {
  std::set<char> known, used;
  for (const ProfileSource& one : ProfileSources()) {
    CHECK(known.insert(one.letter).second);
    CHECK(!one.text.empty());
  }
  for (const DeviceProfile& one : DeviceProfiles()) {
    CAPTURE(one.name);
    const FigureSources sources = SourcesOf(one);
    for (size_t i = 0; i < kFigureGroups.size(); ++i) {
      const bool stated =
          kFigureGroups[i] != "links.host" || one.host_memory_rate.has_value();
      CHECK(sources[i].empty() != stated);
      for (const char letter : sources[i]) {
        CHECK(known.contains(letter));
        used.insert(letter);
      }
    }
  }
  CHECK(used == known);
}

TEST_CASE("every embedded file is a profile of the file's name") {
  Findings findings;
  for (const EmbeddedFile& file : EmbeddedProfiles()) {
    CAPTURE(file.name);
    const auto own = ParseBuiltinProfile(file, findings);
    REQUIRE_MESSAGE(own != nullptr, findings.all().front().message);
    CHECK(own->text + ".yaml" == file.name);
    CHECK(FindDeviceProfile(own->text) != nullptr);
  }
  CHECK(DeviceProfiles().size() == EmbeddedProfiles().size());
}

std::shared_ptr<const OwnProfile> Read(const std::string& text,
                                       Findings& findings) {
  return ParseProfile(std::make_shared<const Source>("own.yaml", text),
                      findings);
}

TEST_CASE("a built-in file is also a profile that a user may name") {
  for (const EmbeddedFile& file : EmbeddedProfiles()) {
    CAPTURE(file.name);
    Findings findings;
    const auto own = Read(std::string(file.text), findings);
    REQUIRE(own != nullptr);
    const DeviceProfile* known = FindDeviceProfile(own->text);
    REQUIRE(known != nullptr);
    CHECK(own->profile.link_rate == known->link_rate);
    CHECK(own->profile.host_rate == known->host_rate);
    CHECK(own->profile.efficiency.runs == known->efficiency.runs);
  }
}

TEST_CASE("a factor of experts is one for all parts or one for each") {
  const auto efficiency = [](const std::string& text) {
    Findings findings;
    const auto own =
        Read("schema: shardc.profile/v1\nbase: h100-sxm\n" + text, findings);
    REQUIRE(own != nullptr);
    return own->profile.efficiency;
  };
  const Efficiency all = efficiency("efficiency: {experts: 0.5}\n");
  CHECK(all.experts == 0.5);
  CHECK(all.dispatch == 0.5);
  CHECK(all.expert_host == 0.5);
  CHECK(all.messages == 1);
  const Efficiency each = efficiency(
      "efficiency: {experts: {dispatch: 0.25, host: 2}, messages: 0.5}\n");
  CHECK(each.experts == 1);
  CHECK(each.dispatch == 0.25);
  CHECK(each.expert_host == 2);
  CHECK(each.messages == 0.5);
}

TEST_CASE("the steps that a profile was fitted to are counted") {
  Findings findings;
  const auto own = Read(
      "schema: shardc.profile/v1\nbase: h100-sxm\nmeasured:\n"
      "  - {run: a, step_s: 2, expected_s: 2.1}\n"
      "  - {run: b, stages: 8, step_s: 4, expected_s: 3.6}\n"
      "  - other evidence\n",
      findings);
  REQUIRE(own != nullptr);
  CHECK(own->profile.efficiency.measured == 2);
  CHECK(own->profile.efficiency.measured_pipelines == 1);
  CHECK(own->profile.efficiency.measured_error == doctest::Approx(0.1));
  CHECK(Read("schema: shardc.profile/v1\nbase: h100-sxm\nmeasured:\n"
             "  - {step_s: fast, expected_s: 2}\n",
             findings) == nullptr);
}

TEST_CASE("a profile without a base needs the figures without a default") {
  const std::string whole =
      "schema: shardc.profile/v1\nname: acme-1\n"
      "memory: {bytes: 48GiB, bandwidth: 1e12}\npeaks: {bf16: 200e12}\n"
      "chips: {fabric: switch, links: 4, per_host: 8}\n"
      "links: {near: {bandwidth: 200e9}, far: {bandwidth: 12.5e9}}\n";
  Findings findings;
  const auto own = Read(whole, findings);
  REQUIRE(own != nullptr);
  CHECK(own->profile.name == "acme-1");
  CHECK(own->profile.link_rate == 50e9);
  CHECK(own->profile.host_rate == 100e9);
  CHECK(!own->profile.fp8_rate);
  CHECK(own->profile.efficiency.runs == 0);
  for (const std::string_view part :
       {"name: acme-1\n", "bytes: 48GiB, ", ", bandwidth: 1e12",
        "peaks: {bf16: 200e12}\n", "fabric: switch, ", ", per_host: 8",
        ", far: {bandwidth: 12.5e9}"}) {
    CAPTURE(part);
    std::string text = whole;
    const size_t at = text.find(part);
    REQUIRE(at != std::string::npos);
    Findings missing;
    CHECK(Read(text.erase(at, part.size()), missing) == nullptr);
    CHECK(missing.HasErrors());
  }
}

TEST_CASE("a curve is straight between its points and level outside") {
  const Curve curve = {{10, 1}, {20, 3}, {40, 2}};
  const struct {
    double at, value;
  } cases[] = {{0, 1},  {10, 1},   {15, 2}, {17.5, 2.5},
               {20, 3}, {30, 2.5}, {40, 2}, {1e9, 2}};
  for (const auto& one : cases) {
    CAPTURE(one.at);
    CHECK(ValueAt(curve, one.at) == one.value);
  }
}

TEST_CASE("a message takes no longer than a larger one") {
  // The rate rises tenfold while the size rises by 3 %, then threefold while
  // the size rises tenfold, and falls at last.
  const Curve rates = {{970, 10}, {1000, 100}, {10000, 300}, {20000, 150}};
  const struct {
    double bytes, seconds;
  } cases[] = {
      {10, 1},     {100, 10},  {200, 10},          {970, 10},
      {985, 10},   {1000, 10}, {10000, 100.0 / 3}, {20000, 20000.0 / 150},
      {30000, 200}};
  for (const auto& one : cases) {
    CAPTURE(one.bytes);
    CHECK(SecondsAt(rates, one.bytes) == doctest::Approx(one.seconds));
  }
}

void Put(std::ostringstream& out, const char* name, const Curve& curve) {
  if (curve.empty()) return;
  out << ' ' << name;
  for (const CurvePoint& point : curve) {
    out << ' ' << point.at << ':' << point.value;
  }
}

// Returns all figures of a profile as text.
std::string FiguresOf(const OwnProfile& own) {
  const DeviceProfile& one = own.profile;
  const Efficiency& eff = one.efficiency;
  std::ostringstream out;
  out.precision(12);
  const auto rate = [&](const char* name, const std::optional<double>& value) {
    if (value) out << ' ' << name << ' ' << *value;
  };
  out << "name " << one.name << ", alias `" << one.alias << "`\nmemory "
      << one.memory_bytes << " at " << one.memory_rate << "\npeaks "
      << one.bf16_rate;
  rate("fp8", one.fp8_rate);
  rate("int8", one.int8_rate);
  out << "\nlinks " << one.links << " of " << one.link_rate << ", "
      << FabricName(one.fabric) << ", connected " << one.fabric_chips
      << "\nhost " << one.chips_per_host << " chips of " << one.devices_per_chip
      << " devices, " << one.host_rate << "\nefficiency matmul " << eff.matmul
      << ' ' << eff.matmul_fp8 << " attention " << eff.attention;
  rate("host memory", one.host_memory_rate);
  rate("flash_attn1", eff.flash_attn1);
  rate("flash_attn2", eff.flash_attn2);
  rate("cudnn", eff.cudnn);
  out << " narrow " << eff.narrow_head << " memory " << eff.memory_ops
      << " near " << eff.near << " far " << eff.far << " latency "
      << eff.latency_s << " scale " << eff.scale << " runs " << eff.runs
      << "\ncurves";
  Put(out, "matmul", eff.matmul_curve);
  Put(out, "matmul_fp8", eff.matmul_fp8_curve);
  for (size_t i = 0; i < kCurveCollectives.size(); ++i) {
    Put(out, kCurveCollectives[i].data(), eff.rate_curves[i]);
  }
  out << "\nsources";
  for (size_t i = 0; i < kFigureGroups.size(); ++i) {
    for (const std::string& text : own.sources[i]) {
      out << ' ' << kFigureGroups[i] << '=' << text;
    }
  }
  return out.str() + "\n";
}

TEST_CASE("a file's figures, or what is refused and where") {
  CheckTable("devices.txt", [](const TableCase& given) {
    Findings findings;
    const auto own = Read(given.Text("profile"), findings);
    std::string out;
    for (const Finding& one : findings.all()) {
      const Place& at = one.place;
      out +=
          std::string(at.source->text().substr(at.begin, at.end - at.begin)) +
          ": " + one.message + " (" + one.help + ")\n";
    }
    return own == nullptr ? out : out + FiguresOf(*own);
  });
}

TEST_CASE("a device is a half of a chip where frameworks count two") {
  CHECK(FindDeviceProfile("tpu-7x")->DeviceMemory() == 103079215104);
  CHECK(FindDeviceProfile("tpu-v5p")->DeviceMemory() == 102005473280);
}

}  // namespace
}  // namespace shardc
