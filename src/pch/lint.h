// Headers that most lints include, compiled once for all of them. Every source
// still includes all headers that it uses, as with standard.h.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "pch/standard.h"
