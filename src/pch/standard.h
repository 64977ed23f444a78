// Directory: pch. Precompiled headers.
// Its files include headers of these directories: source, model, legalize,
// plan, lint/analysis, lint/rules.
//
// The standard headers that most sources read, compiled once for all of them.
// Every source still includes all headers that it uses. clang-tidy, and a build
// with -Db_pch=false, compile the source without this header.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#ifdef SHARDC_COMMON_HEADERS
// Headers of the project that most sources include. Precompiling them makes a
// complete build 10 to 20 % faster. A build after a change to one of them is
// much slower, because every source is then compiled again.
#include "legalize/legalize.h"
#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/plan.h"
#include "source/finding.h"
#include "source/source.h"
#endif
