// Room: shardc. The public library: what is installed, and nothing else is.
// Knows every room but cli; its headers know one another only.
//
// Common to all of them:
// - Names are shardc::..., in the inline namespace v1; what a later version
//   changes goes into another, so that both can be linked into one program.
// - Objects are immutable values that share what they hold: a copy is cheap,
//   and several threads may read one. Nothing global is changed.
// - Sizes are counted in elements, bytes or devices, as the name says, in 64
//   bits; a shape is major dimension first.
// - What is wrong with an input is a Finding, told with its place; the
//   function then returns nothing. No exception is thrown but
//   std::bad_alloc.
#ifndef SHARDC_SHARDC_VERSION_H_
#define SHARDC_SHARDC_VERSION_H_

#include <string_view>

#define SHARDC_VERSION "0.1.0"

// The library's own sources have other names in shardc; for them, who define
// this as v1, the namespace is one apart.
#ifndef SHARDC_V1
#define SHARDC_V1 inline v1
#endif

namespace shardc::SHARDC_V1 {

// Of the library that is linked: "0.1.0". It is SHARDC_VERSION where the
// headers are of the same one.
std::string_view Version();

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_VERSION_H_
