// Includes all headers of the public library. They read a mesh, rules and a
// manifest, compile them to a plan, check the plan, and verify attention under
// the sharding that the mesh and the rules imply.
#ifndef SHARDC_SHARDC_SHARDC_H_
#define SHARDC_SHARDC_SHARDC_H_

#include "shardc/check.h"
#include "shardc/findings.h"
#include "shardc/manifest.h"
#include "shardc/mesh.h"
#include "shardc/plan.h"
#include "shardc/resolve.h"
#include "shardc/rules.h"
#include "shardc/spec.h"
#include "shardc/target.h"
#include "shardc/verify.h"
#include "shardc/version.h"

#endif  // SHARDC_SHARDC_SHARDC_H_
