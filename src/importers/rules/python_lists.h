// Reads the lists of pairs (pattern, PartitionSpec) that Python source has as
// literals. Nothing is run or followed: `python3 -m shardc.import_python`
// follows values through a file.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_LISTS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_LISTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/rules.h"
#include "source/source.h"

namespace shardc::imports {

struct PythonList {
  // The rules in order. Their specs are empty where they are no literals.
  std::vector<Rule> rules;
  int64_t literal_specs = 0;
  Place place;  // of the list
};

// Returns the lists of a file, in its order. A list has pairs alone, of which
// at least one has a PartitionSpec or the name of a way to shard, such as
// `ColumnWise`.
std::vector<PythonList> ReadPythonLists(const SourceRef& source);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_LISTS_H_
