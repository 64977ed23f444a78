// What the sources take from POSIX and WASI lacks. Included before every source
// of the playground's build; the program's own build never reads this file.
#ifndef SHARDC_PLAYGROUND_WASI_H_
#define SHARDC_PLAYGROUND_WASI_H_

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

// A file without a name. The file system in memory has none: opening a folder
// to be written fails, and the file is written under a temporary name.
#ifndef O_TMPFILE
#define O_TMPFILE O_DIRECTORY
#endif

// The size of a terminal: ioctl() refuses this request, and the width is then
// the usual one.
struct winsize {
  unsigned short ws_row, ws_col, ws_xpixel, ws_ypixel;
};
#ifndef TIOCGWINSZ
#define TIOCGWINSZ 0x5413
#endif

// Files in memory have no modes.
inline int fchmod(int, mode_t) { return 0; }

#endif  // SHARDC_PLAYGROUND_WASI_H_
