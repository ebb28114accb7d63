{{/*
What the operator may do, by kind: create and patch for applies, get for a child whose name is taken or that is applied
for the first time, delete for pruning. It reads no secrets and no logs, and patches no pods: the nudge goes through pods/status. Each right is used,
and no other: tests/contract/test_rights.py holds them against the API server's audit log.
*/}}
{{- define "sloserve.rules" -}}
- apiGroups: [sloserve.dev]
  resources: [sloserves]
  verbs: [list, watch]
- apiGroups: [sloserve.dev]
  resources: [sloserves/status]
  verbs: [patch]
# Needed to own children with blockOwnerDeletion where the admission plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [sloserve.dev]
  resources: [sloserves/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, serviceaccounts, services]
  verbs: [get, list, watch, create, patch, delete]
# No delete: a claim holds data, and goes with its SLOServe alone.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}
