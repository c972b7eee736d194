package columns

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storagePrinters() map[string]*Printer {
	volume := corev1.PersistentVolumeSpec{}.SwaggerDoc()
	volumeStatus := corev1.PersistentVolumeStatus{}.SwaggerDoc()
	claim := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()
	claimStatus := corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	class := storagev1.StorageClass{}.SwaggerDoc()
	attachment := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	driver := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return map[string]*Printer{
		"persistentvolumes.v1.": of(func(o *corev1.PersistentVolume, at clock) []any {
			claim := ""
			if c := o.Spec.ClaimRef; c != nil {
				claim = c.Namespace + "/" + c.Name
			}
			return []any{
				o.Name, quantity(o.Spec.Capacity, corev1.ResourceStorage), accessModes(o.Spec.AccessModes),
				string(o.Spec.PersistentVolumeReclaimPolicy), phase(o.ObjectMeta, string(o.Status.Phase)), claim,
				classOf(o.ObjectMeta, &o.Spec.StorageClassName), unset(o.Spec.VolumeAttributesClassName),
				o.Status.Reason, at.age(o.ObjectMeta), unset(o.Spec.VolumeMode),
			}
		},
			name,
			column("Capacity", volume["capacity"]),
			column("Access Modes", volume["accessModes"]),
			column("Reclaim Policy", volume["persistentVolumeReclaimPolicy"]),
			column("Status", volumeStatus["phase"]),
			column("Claim", volume["claimRef"]),
			column("StorageClass", "StorageClass of the pv"),
			column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
			column("Reason", volumeStatus["reason"]),
			age,
			wide(column("VolumeMode", volume["volumeMode"])),
		),
		"persistentvolumeclaims.v1.": of(func(o *corev1.PersistentVolumeClaim, at clock) []any {
			capacity, modes := "", ""
			if o.Spec.VolumeName != "" {
				capacity = quantity(o.Status.Capacity, corev1.ResourceStorage)
				modes = accessModes(o.Status.AccessModes)
			}
			return []any{
				o.Name, phase(o.ObjectMeta, string(o.Status.Phase)), o.Spec.VolumeName, capacity, modes,
				classOf(o.ObjectMeta, o.Spec.StorageClassName), unset(o.Spec.VolumeAttributesClassName),
				at.age(o.ObjectMeta), unset(o.Spec.VolumeMode),
			}
		},
			name,
			column("Status", claimStatus["phase"]),
			column("Volume", claim["volumeName"]),
			column("Capacity", claimStatus["capacity"]),
			column("Access Modes", claimStatus["accessModes"]),
			column("StorageClass", "StorageClass of the pvc"),
			column("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
			age,
			wide(column("VolumeMode", claim["volumeMode"])),
		),
		"storageclasses.v1.storage.k8s.io": of(func(o *storagev1.StorageClass, at clock) []any {
			name := o.Name
			if o.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
				o.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
			if o.ReclaimPolicy != nil {
				reclaim = *o.ReclaimPolicy
			}
			if o.VolumeBindingMode != nil {
				binding = *o.VolumeBindingMode
			}
			return []any{
				name, o.Provisioner, string(reclaim), string(binding), isTrue(o.AllowVolumeExpansion),
				at.age(o.ObjectMeta),
			}
		},
			name,
			column("Provisioner", class["provisioner"]),
			column("ReclaimPolicy", class["reclaimPolicy"]),
			column("VolumeBindingMode", class["volumeBindingMode"]),
			column("AllowVolumeExpansion", class["allowVolumeExpansion"]),
			age,
		),
		"volumeattributesclasses.v1.storage.k8s.io": of(func(o *storagev1.VolumeAttributesClass, at clock) []any {
			return []any{o.Name, o.DriverName, at.age(o.ObjectMeta)}
		},
			name,
			column("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
			age,
		),
		"volumeattachments.v1.storage.k8s.io": of(func(o *storagev1.VolumeAttachment, at clock) []any {
			volume := ""
			if v := o.Spec.Source.PersistentVolumeName; v != nil {
				volume = *v
			}
			return []any{o.Name, o.Spec.Attacher, volume, o.Spec.NodeName, o.Status.Attached, at.age(o.ObjectMeta)}
		},
			name,
			named("Attacher", attachment["attacher"]),
			column("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			column("Node", attachment["nodeName"]),
			boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
			age,
		),
		"csinodes.v1.storage.k8s.io": of(func(o *storagev1.CSINode, at clock) []any {
			return []any{o.Name, int64(len(o.Spec.Drivers)), at.age(o.ObjectMeta)}
		},
			name,
			integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
			age,
		),
		"csidrivers.v1.storage.k8s.io": of(func(o *storagev1.CSIDriver, at clock) []any {
			audiences := "<unset>"
			if requests := o.Spec.TokenRequests; requests != nil {
				list := make([]string, len(requests))
				for i, r := range requests {
					list[i] = r.Audience
				}
				audiences = strings.Join(list, ",")
			}
			modes := make([]string, len(o.Spec.VolumeLifecycleModes))
			for i, m := range o.Spec.VolumeLifecycleModes {
				modes[i] = string(m)
			}
			return []any{
				o.Name, o.Spec.AttachRequired == nil || *o.Spec.AttachRequired, isTrue(o.Spec.PodInfoOnMount),
				isTrue(o.Spec.StorageCapacity), audiences, isTrue(o.Spec.RequiresRepublish),
				or(strings.Join(modes, ","), "<none>"), at.age(o.ObjectMeta),
			}
		},
			name,
			boolean("AttachRequired", driver["attachRequired"]),
			boolean("PodInfoOnMount", driver["podInfoOnMount"]),
			boolean("StorageCapacity", driver["storageCapacity"]),
			column("TokenRequests", driver["tokenRequests"]),
			boolean("RequiresRepublish", driver["requiresRepublish"]),
			column("Modes", driver["volumeLifecycleModes"]),
			age,
		),
		"csistoragecapacities.v1.storage.k8s.io": plain(),
	}
}

// accessModes prints modes in short, each once, in the order that kubectl users know.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var list []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			list = append(list, m.short)
		}
	}
	return strings.Join(list, ",")
}

// phase is that of a status, unless the object is being deleted.
func phase(o metav1.ObjectMeta, ofStatus string) string {
	if o.DeletionTimestamp != nil {
		return "Terminating"
	}
	return ofStatus
}

// classOf is the storage class that an annotation from before the field names, or else the field.
func classOf(o metav1.ObjectMeta, field *string) string {
	if class, ok := o.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if field == nil {
		return ""
	}
	return *field
}

func unset[T ~string](s *T) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}

func isTrue(b *bool) bool { return b != nil && *b }
