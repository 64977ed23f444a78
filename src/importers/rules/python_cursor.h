// A position in the tokens of a Python file, for a recursive descent parser.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_CURSOR_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_CURSOR_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_tokens.h"

namespace shardc::imports {

// A position in a list of tokens. After the first finding the position is the
// last token, so that loops over the tokens end.
class PyCursor {
 public:
  // `findings` must outlive this object.
  PyCursor(SourceRef source, std::vector<PyTokenAt> tokens, Findings& findings)
      : source_(std::move(source)),
        tokens_(std::move(tokens)),
        findings_(findings) {}

  // Returns whether no finding has been added yet.
  bool good() const { return good_; }
  const PyTokenAt& Now(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool IsWord(std::string_view word, size_t ahead = 0) const {
    return Now(ahead).kind == PyToken::kName && Now(ahead).text == word;
  }
  bool IsOperator(std::string_view word, size_t ahead = 0) const {
    return Now(ahead).kind == PyToken::kOperator && Now(ahead).text == word;
  }
  bool AtLineEnd() const {
    return Now().kind == PyToken::kNewline || Now().kind == PyToken::kEnd ||
           IsOperator(";");
  }
  void Next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool Take(std::string_view word) {
    if (!IsOperator(word)) return false;
    Next();
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Next();
    return true;
  }
  size_t LastEnd() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }
  // Adds a finding (python-syntax) at the current token.
  void Refuse(std::string message);

  // Enters a nested statement or expression. Returns false after a finding with
  // this message if the nesting is too deep.
  bool Enter(std::string message);
  void Leave() { --depth_; }

  size_t at() const { return at_; }
  const PyTokenAt& token(size_t at) const { return tokens_[at]; }

 private:
  SourceRef source_;
  std::vector<PyTokenAt> tokens_;
  Findings& findings_;
  size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_CURSOR_H_
