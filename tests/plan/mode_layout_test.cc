#include "plan/compile.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("a mode that was not requested has the layout of train") {
  ParamLayout layout;
  layout.modes.resize(2);
  layout.modes[0].spec = {{"fsdp"}};
  layout.modes[1].mode = Mode::kDecode;
  layout.modes[1].spec = {{"tp"}};
  CHECK(LayoutIn(layout, Mode::kTrain).spec == Spec{{"fsdp"}});
  CHECK(LayoutIn(layout, Mode::kDecode).spec == Spec{{"tp"}});
  CHECK(LayoutIn(layout, Mode::kPrefill).spec == Spec{{"fsdp"}});
}

}  // namespace
}  // namespace shardc
