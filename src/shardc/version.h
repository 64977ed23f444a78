// Directory: shardc. The public library. Its headers are installed, except
// inside.h. The installed headers include no headers of the folders below.
// Its files include headers of these directories: source, model, parse,
// importers, resolve, plan, lint, target, exec/operations, verify/cases,
// verify, emit, emit/findings, emit/verify.
//
// Conventions of all headers:
// - Names are in shardc::..., in the inline namespace v1. A later, incompatible
//   version gets another namespace, so that a program can link both.
// - Objects are values with shared contents: a copy is cheap, and several
//   threads may read one. No global state is changed.
// - Sizes are 64-bit numbers of elements, bytes or devices, as their names say.
//   A shape has its major dimension first.
// - An error in an input is a Finding with its place, and the function returns
//   nullopt. The only exception thrown is std::bad_alloc.
#ifndef SHARDC_SHARDC_VERSION_H_
#define SHARDC_SHARDC_VERSION_H_

#include <string_view>

#define SHARDC_VERSION "0.1.0"

// The library's own sources also have internal types in namespace shardc, such
// as another shardc::Plan. They define SHARDC_V1 as v1 without `inline`, so
// that the public names do not conflict with the internal ones.
#ifndef SHARDC_V1
#define SHARDC_V1 inline v1
#endif

namespace shardc::SHARDC_V1 {

// Returns the version of the linked library, such as "0.1.0". It equals
// SHARDC_VERSION if the program was compiled with the headers of this version.
std::string_view Version();

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_VERSION_H_
