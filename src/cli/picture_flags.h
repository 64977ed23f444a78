// How pictures are drawn: characters, width and colour of the terminal that
// they go to. What goes elsewhere is the same wherever it is made.
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
// Nothing, and a finding, where a width cannot be read.
std::optional<PictureStyle> StyleOf(const PictureFlags& flags,
                                    const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICTURE_FLAGS_H_
