#include "plan/nearest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "draws.h"

namespace shardc {
namespace {

// Returns a word of few different letters, so that many words are near to
// each other.
std::string DrawWord(Draws& draw, size_t most) {
  std::string out;
  for (size_t size = draw() % (most + 1); size > 0; --size) {
    out += static_cast<char>('a' + draw() % 3);
  }
  return out;
}

// Returns the word after up to three edits.
std::string Edited(Draws& draw, std::string word) {
  for (size_t edits = draw() % 4; edits > 0; --edits) {
    const size_t at = draw() % (word.size() + 1);
    const char letter = static_cast<char>('a' + draw() % 3);
    switch (draw() % 4) {
      case 0:
        word.insert(at, 1, letter);
        break;
      case 1:
        word.erase(at, 1);
        break;
      case 2:
        if (at < word.size()) word[at] = letter;
        break;
      default:
        if (at + 1 < word.size()) std::swap(word[at], word[at + 1]);
    }
  }
  return word;
}

TEST_CASE("typing errors in short and long lists are those of each pair") {
  for (const size_t count : {20, 256, 257, 900}) {
    CAPTURE(count);
    Draws draw(count);
    MisspeltWords words;
    std::vector<std::string> all;
    while (all.size() < count) {
      // Words of more than 24 letters are compared one by one.
      std::string word = DrawWord(draw, 30);
      if (words.Add(word) == all.size()) all.push_back(std::move(word));
    }
    words.Finish();
    size_t found = 0;
    for (int i = 0; i < 400; ++i) {
      const std::string word =
          i % 4 == 0 ? DrawWord(draw, 30) : Edited(draw, all[draw() % count]);
      CAPTURE(word);
      std::vector<size_t> expected;
      for (size_t w = 0; w < all.size(); ++w) {
        if (IsTypingError(all[w], word)) expected.push_back(w);
      }
      std::vector<size_t> got = words.Find(word);
      std::sort(got.begin(), got.end());
      CHECK(got == expected);
      found += got.size();
    }
    CHECK(found > 200);
  }
}

}  // namespace
}  // namespace shardc
