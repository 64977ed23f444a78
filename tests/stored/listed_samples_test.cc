// Compares everything that a reader states about the samples of
// testdata/stored, and about damaged copies of them, with
// testdata/tables/stored_samples.txt and stored_damage.txt. samples_test.cc
// compares the bytes of their arrays.
#include <doctest/doctest.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "source/digest.h"
#include "source/size.h"
#include "stored/tree.h"
#include "tables.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

std::string SampleFolder(const std::string& name) {
  return std::string(std::getenv("SHARDC_SOURCE_ROOT")) + "/testdata/stored/" +
         name;
}

std::string ListText(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(size);
  }
  return out + "]";
}

// Returns the keys, those of lists as `#0`.
std::string PathText(const std::vector<std::string>& path,
                     const std::vector<bool>& in_sequence) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) out += " ";
    if (i < in_sequence.size() && in_sequence[i]) out += "#";
    out += path[i];
  }
  return out;
}

// Returns the text without the folder of the sample.
std::string Without(const std::string& folder, std::string text) {
  for (size_t at = 0; (at = text.find(folder, at)) != std::string::npos;) {
    text.replace(at, folder.size(), "FOLDER");
  }
  return text;
}

std::string PlaceText(const std::string& folder, const ChunkPlace& place) {
  return Without(folder, place.file) + " " + std::to_string(place.offset) +
         "+" + std::to_string(place.bytes) + (place.raw ? " raw" : "");
}

// Returns the places of the first and the last chunks.
std::string ChunksText(const std::string& folder, const Tree& tree, size_t i) {
  const Array& array = tree.arrays[i];
  std::string out;
  const int64_t count = array.Chunks();
  for (int64_t chunk = 0; chunk < count; ++chunk) {
    if (chunk >= 2 && chunk + 1 < count) continue;
    Findings findings;
    const auto place = tree.reader->Find(i, chunk, findings);
    const Box box = array.BoxOf(chunk);
    out += "    " + std::to_string(chunk) + " at " + ListText(box.offset) +
           " of " + ListText(box.shape) + ": " +
           (place ? PlaceText(folder, *place)
                  : Without(folder, findings.all()[0].message)) +
           "\n";
  }
  return out;
}

std::string ArrayText(const std::string& folder, const Tree& tree, size_t i) {
  const Array& array = tree.arrays[i];
  std::string out =
      array.name + ": " + PathText(array.path, array.in_sequence) + " in `" +
      array.key + "`, " +
      (array.dtype ? std::string(DtypeName(*array.dtype))
                   : std::string("unknown")) +
      " of " + std::to_string(array.element_bytes) + " bytes " +
      ListText(array.shape) + ", " + std::to_string(array.Chunks()) +
      " chunks of " +
      (array.pieces.empty() ? ListText(array.chunk) : std::string("pieces"));
  if (array.sharding) {
    out += ", saved as " + SpecText(array.sharding->spec) + " on " +
           MeshText(array.sharding->mesh);
  }
  if (!array.random_key.empty()) out += ", keys of " + array.random_key;
  if (!array.unreadable.empty()) out += "; " + array.unreadable;
  return out + "\n" + ChunksText(folder, tree, i);
}

std::string LeafText(const std::string& folder, const Leaf& leaf) {
  std::string text = leaf.text;
  if (leaf.kind == Leaf::Kind::kNumber) {
    std::string hex;
    for (const char c : text) hex += std::to_string(+c) + " ";
    text = hex + std::string(DtypeName(leaf.dtype));
  }
  return leaf.name + ": " + PathText(leaf.path, leaf.in_sequence) + " " +
         std::string(printing::EnumeratorName(leaf.kind)) + " " + text +
         (leaf.place ? " at " + PlaceText(folder, *leaf.place) : "") + "\n";
}

TEST_CASE("samples: everything that is known of a tree is as written") {
  CheckTable("stored_samples.txt", [](const TableCase& given) {
    const std::string folder = SampleFolder(given.Text("sample"));
    Findings findings;
    const auto tree = OpenTree(folder, findings);
    std::string out;
    for (const Finding& one : findings.all()) {
      out += Without(folder, one.message) + "\n";
    }
    if (!tree) return out;
    out += tree->form + "\n";
    for (const std::string& note : tree->notes) {
      out += "note: " + Without(folder, note) + "\n";
    }
    for (size_t i = 0; i < tree->arrays.size(); ++i) {
      out += ArrayText(folder, *tree, i);
    }
    for (const Leaf& leaf : tree->leaves) out += LeafText(folder, leaf);
    return out;
  });
}

// Returns a digest of all that a folder's arrays hold, or the first finding.
std::string Outcome(const std::string& folder) {
  Findings findings;
  const auto tree = OpenTree(folder, findings);
  std::string all;
  for (size_t i = 0; tree && i < tree->arrays.size(); ++i) {
    const Array& array = tree->arrays[i];
    all += array.name + ListText(array.shape) + array.unreadable + " ";
    if (!array.unreadable.empty()) continue;
    const Box box = FullBox(array.shape);
    const int64_t bytes = box.Elements() * array.element_bytes;
    if (bytes > int64_t{1} << 24) {
      all += "large ";
      continue;
    }
    std::string out(AsIndex(bytes), '\0');
    if (!ReadBox(*tree, i, box, out.data(), findings)) break;
    all += out;
  }
  if (!findings.empty()) return Without(folder, findings.all()[0].message);
  for (const Leaf& leaf : tree->leaves) all += leaf.name + leaf.text;
  return "reads " + Sha256(all);
}

// Returns the text with each number as `#`, and a hexadecimal one as `#x#`, so
// that one line stands for many places of the damage. What the JSON library
// states differs by its version.
std::string WithoutNumbers(const std::string& text) {
  constexpr std::string_view kSyntax = "not well-formed JSON";
  if (text.starts_with(kSyntax)) return std::string(kSyntax);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool hex = out.ends_with("#x") || out.ends_with("#x#");
    const bool digit = hex ? std::isxdigit(byte) != 0 : std::isdigit(byte) != 0;
    if (digit && !out.empty() && out.back() == '#') continue;
    out += digit ? '#' : c;
  }
  return out;
}

// Returns the text without what it quotes, which is damaged too.
std::string WithoutQuotes(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (const char c : text) {
    if (c == '`') quoted = !quoted;
    if (!quoted || c == '`') out += c;
  }
  return out;
}

// Damages a file at one place after the other, and counts what becomes of it.
class Damage {
 public:
  Damage(const std::string& sample, std::string file, bool quotes)
      : file_(std::move(file)), quotes_(quotes) {
    fs::copy(SampleFolder(sample), folder_.path() / "s",
             fs::copy_options::recursive);
    sound_ = folder_.Read("s/" + file_);
    sound_outcome_ = Outcome(folder_ / "s");
  }

  void With(const std::string& bytes) {
    folder_.Write("s/" + file_, bytes);
    std::string out = Outcome(folder_ / "s");
    out = out == sound_outcome_       ? "reads the same"
          : out.starts_with("reads ") ? "reads other values"
          : quotes_                   ? WithoutNumbers(out)
                                      : WithoutNumbers(WithoutQuotes(out));
    ++outcomes_[out];
  }

  const std::string& sound() const { return sound_; }

  std::string Text(const std::string& what) const {
    std::string out = what + ":\n";
    for (const auto& [outcome, count] : outcomes_) {
      out += "  " + std::to_string(count) + "  " + outcome + "\n";
    }
    return out;
  }

 private:
  TemporaryFolder folder_;
  std::string file_, sound_, sound_outcome_;
  bool quotes_;
  std::map<std::string, int> outcomes_;
};

// Returns the ranges of the values in JSON text: strings, numbers, lists and
// objects, those inside others too.
std::vector<std::pair<size_t, size_t>> ValuesIn(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> out;
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const size_t begin = i;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      out.emplace_back(begin, i + 1);
    } else if (text[i] == '{' || text[i] == '[') {
      open.push_back(i);
    } else if (text[i] == '}' || text[i] == ']') {
      out.emplace_back(open.back(), i + 1);
      open.pop_back();
    } else if (std::isalnum(static_cast<unsigned char>(text[i])) != 0 ||
               text[i] == '-') {
      const size_t begin = i;
      while (i + 1 < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0 ||
              text[i + 1] == '.')) {
        ++i;
      }
      out.emplace_back(begin, i + 1);
    }
  }
  return out;
}

std::string Replaced(const std::string& text, std::pair<size_t, size_t> range,
                     std::string_view by) {
  return text.substr(0, range.first) + std::string(by) +
         text.substr(range.second);
}

std::string DamagedJson(const std::string& sample, const std::string& file) {
  std::string out;
  for (const std::string_view by :
       {"null", "7", "-1", "\"x\"", "[]", "{}", "true", "1099511627776"}) {
    Damage damage(sample, file, true);
    for (const auto& range : ValuesIn(damage.sound())) {
      damage.With(Replaced(damage.sound(), range, by));
    }
    out += damage.Text("each value as " + std::string(by));
  }
  return out;
}

std::string DamagedBytes(const std::string& sample, const std::string& file,
                         size_t every) {
  std::string out;
  for (const int change : {0x01, 0x80, 0xFF}) {
    Damage damage(sample, file, false);
    for (size_t at = 0; at < damage.sound().size(); at += every) {
      std::string bytes = damage.sound();
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      damage.With(bytes);
    }
    out +=
        damage.Text("one byte changed in the bits " + std::to_string(change));
  }
  Damage cut(sample, file, false), longer(sample, file, false);
  for (size_t at = 0; at < cut.sound().size(); at += every) {
    cut.With(cut.sound().substr(0, at));
    longer.With(cut.sound().substr(0, at) + cut.sound().substr(at / 2));
  }
  return out + cut.Text("cut off") + longer.Text("a part twice");
}

TEST_CASE("samples: what becomes of damaged files is as written") {
  CheckTable("stored_damage.txt", [](const TableCase& given) {
    const std::string sample = given.Text("sample"), file = given.Text("file");
    if (given.Find("every") == nullptr) return DamagedJson(sample, file);
    return DamagedBytes(sample, file,
                        static_cast<size_t>(std::stoll(given.Text("every"))));
  });
}

}  // namespace
}  // namespace shardc::stored
