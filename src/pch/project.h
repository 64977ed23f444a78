// The standard headers and those of the project that most sources read through
// others, for builds from nothing (-Dprecompiled=project): a file then takes
// half the time, and any change of these headers compiles everything anew.
// Every source includes what it uses all the same, as beside standard.h.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/project.h"
#include "pch/standard.h"
#include "plan/plan.h"
#include "source/checked.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/wording.h"
