// Headers that most lints include, compiled once for all of them. As with
// standard.h, every source still includes all headers that it uses.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "pch/standard.h"
