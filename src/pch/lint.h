// What every lint reads, compiled once for all of them; as beside standard.h
// every source includes what it uses all the same.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "pch/standard.h"
