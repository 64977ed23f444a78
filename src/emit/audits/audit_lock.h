// Writes the committed summary of an audit (`shardc.audit-lock/v1`): the bytes
// that a program sends, and the mistakes that the audit finds in it. Line
// numbers and the number of collectives are left out, because another version
// of the compiler may change both.
#ifndef SHARDC_EMIT_AUDITS_AUDIT_LOCK_H_
#define SHARDC_EMIT_AUDITS_AUDIT_LOCK_H_

#include "audit/audit.h"
#include "source/sink.h"

namespace shardc {

void WriteAuditLock(const audit::Report& report, bool scheduled, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_AUDIT_LOCK_H_
