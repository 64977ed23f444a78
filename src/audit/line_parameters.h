// Finds the entry parameters that the operations of a line of Python code use.
#ifndef SHARDC_AUDIT_LINE_PARAMETERS_H_
#define SHARDC_AUDIT_LINE_PARAMETERS_H_

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "audit/entry.h"
#include "audit/graph.h"
#include "hlo/frames.h"

namespace shardc::audit {

class LineParameters {
 public:
  // Finds the parameters for the lines of these metadata.
  LineParameters(const Graph& graph, const Entry& entry,
                 std::span<const std::string_view> metadata);

  // Returns the parameters that operations of the same expression use, and
  // those that operations of the same line use, both in the same named scope.
  // The sets are empty for metadata that were not given to the constructor.
  std::array<const std::set<Node>*, 2> Of(std::string_view metadata) const;

 private:
  using Keys = std::array<std::string, 2>;
  Keys KeysOf(std::string_view metadata) const;

  const hlo::Frames& frames_;
  std::map<std::string, std::set<Node>> parameters_;
  std::set<Node> none_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_LINE_PARAMETERS_H_
