// Includes all headers of the public library: read a mesh, rules and a
// manifest, compile them to a plan, check the plan, and verify the attention
// that the mesh implies.
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
