// Defines the options that set the characters, the width and the colours of
// pictures. If the output is not a terminal, the width is fixed and the
// characters are UTF-8, unless options change that.
#ifndef SHARDC_CLI_PICTURE_FLAGS_H_
#define SHARDC_CLI_PICTURE_FLAGS_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "emit/pictures/line.h"

namespace shardc::cli {

struct PictureFlags {
  bool ascii = false;
  std::string width;
};

Options OptionsOf(PictureFlags& flags);
// Returns the style that the flags describe. Returns nullopt and adds a finding
// if the width is invalid.
std::optional<PictureStyle> StyleOf(const PictureFlags& flags,
                                    const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICTURE_FLAGS_H_
