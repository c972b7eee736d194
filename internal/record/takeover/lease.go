package takeover

// The Lease of the API server elects the one of several replicas that writes, and has what it publishes to the others:
// how far it has come.
//
// The election is client-go's (tools/leaderelection). It does not fence: a leader that was suspended continues for a
// moment as if it still held the Lease. Here a term is certain only until renewDeadline after its last renewal was sent
// (see Elector.May), and the recorder checks this before each write. Another replica waits for leaseDuration, which is
// longer, after it has seen that renewal.
//
// With each renewal the leader publishes, in the Lease's annotations, the position up to which each stream is committed
// (see annotation.go). This costs the server no request beyond those of the election, and the replica that takes the
// Lease over has the last published positions: its update fails with a conflict if the Lease has changed since it was
// read.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// ReleaseTimeout is how long a release may take, so that a stop ends soon.
const ReleaseTimeout = 500 * time.Millisecond

// looks is how often the election reads the Lease in each retryPeriod. client-go waits up to 2.2 times its period
// between two reads, which would otherwise add to leaseDuration when a leader is gone. A leader still renews once per
// retryPeriod.
const looks = 4

// replica is the part of Replica that an Elector needs.
type replica interface {
	Begin(Term)
	Positions() (committed Positions, version uint64)
	MarkPublished(version uint64)
}

// Config is the configuration of an Elector.
type Config struct {
	Name, Namespace string // of the Lease
	Identity        string // of this process, unlike that of any other
	LeaseDuration   time.Duration
	RenewDeadline   time.Duration
	RetryPeriod     time.Duration
	Leases          dynamic.ResourceInterface // of the namespace
	Replica         replica
	Terms           checkpoint.Terms             // of an earlier process
	SaveTerms       func(checkpoint.Terms) error // for Terms of the next one
	// Able returns why this replica cannot write, nil when it can, as far as it has tried. One that cannot does not
	// renew the Lease, nor takes it within leaseDuration after that.
	Able    func() error
	Log     *zap.Logger
	Changed func(before, now Status) // called when Leads, Holder or Term has changed
}

// Status is what an Elector knows of the Lease.
type Status struct {
	Leads  bool
	Holder string // identity of the replica that writes; "" is none
	Term   uint64 // of the latest one
	// Seen is when the Lease was read or written last; ReadErr why it could not be read since.
	Seen    time.Time
	ReadErr error
	// Renewed is when a holder was last seen to renew the Lease; WriteErr why this replica last failed to write it.
	Renewed  time.Time
	WriteErr error
	// Damage is why the positions in the Lease cannot be decoded, so that this replica does not follow; nil if they
	// can.
	Damage error
	// LeftOut is how many positions did not fit into the Lease, of this replica as the leader.
	LeftOut int
}

// Elector takes part in the election until Run ends. Its methods are safe for concurrent use, but for those of
// resourcelock.Interface, which the election calls from one goroutine at a time.
type Elector struct {
	cfg       Config
	lease     *coordinationv1.Lease // as it was read or written last; nil: it is not there
	saved     checkpoint.Terms      // what SaveTerms has taken
	unsaved   error                 // why SaveTerms has failed
	given     string                // the positions annotation that the replica was given last
	positions Positions             // the last ones that could be decoded, or were written
	restored  string                // the version of a Lease that is an earlier one again, as a backup has it
	leads     bool                  // as the replica was told last
	led       map[uint64]bool       // this replica's terms
	logged    map[string]uint64     // causes of damage, each with the term, plus 1, in which it was logged last
	room      int                   // bytes for positions that the server has not refused
	unable    error                 // why this replica could not write, if it was so
	unableAt  time.Time             // when it was so last

	stopped  func() error    // Err of Run's context
	released context.Context // ends ReleaseTimeout after that; client-go's release has a context of its own

	mu       sync.Mutex
	status   Status    // guarded by mu
	renewed  time.Time // when the last successful renewal was asked for; guarded by mu
	boottime int64     // the same, by a clock that continues while the machine is suspended, in nanoseconds
}

// New returns an Elector that has not begun.
func New(cfg Config) *Elector {
	e := &Elector{
		cfg: cfg, saved: cfg.Terms, led: map[uint64]bool{cfg.Terms.Led: true}, logged: make(map[string]uint64),
		room: maxPacked,
	}
	e.status.Seen, e.status.Renewed, e.status.Term = time.Now(), time.Now(), cfg.Terms.Latest
	return e
}

// Run takes part until ctx ends, and then gives the Lease up, if it is ours.
func (e *Elector) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // what is worth knowing is logged here
	e.stopped = ctx.Err
	released, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	e.released = released
	context.AfterFunc(ctx, func() { time.AfterFunc(ReleaseTimeout, cancel) })
	for ctx.Err() == nil {
		// It panics where its configuration has a fault, which the config's check has refused.
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: e, LeaseDuration: e.cfg.LeaseDuration, RenewDeadline: e.cfg.RenewDeadline,
			RetryPeriod: e.cfg.RetryPeriod / looks, ReleaseOnCancel: true, Name: e.cfg.Name,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {}, // write has seen to it
				OnStoppedLeading: e.stepBack,
			},
		})
	}
}

// Status returns what is known of the Lease.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	if !s.Leads && (s.Holder == e.cfg.Identity || time.Since(s.Renewed) > e.cfg.LeaseDuration) {
		s.Holder = "" // it does not write any more
	}
	return s
}

// Err is why this replica can neither write, nor follow another one and take over; nil if it can.
func (e *Elector) Err() error {
	s, since := e.Status(), func(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
	switch {
	case s.ReadErr != nil && (s.Term == 0 || since(s.Seen) > e.cfg.LeaseDuration):
		return fmt.Errorf("the Lease %s could not be read for %s: %w", e.Describe(), since(s.Seen), s.ReadErr)
	case s.WriteErr != nil && s.Holder == "":
		return fmt.Errorf("no replica holds the Lease %s: %w", e.Describe(), s.WriteErr)
	case s.Term == 0:
		return fmt.Errorf("no replica holds the Lease %s yet", e.Describe())
	case s.Holder == "" && time.Since(s.Renewed) > 2*e.cfg.LeaseDuration:
		return fmt.Errorf("no replica has held the Lease %s for %s", e.Describe(), since(s.Renewed))
	case s.Damage != nil && !s.Leads:
		return fmt.Errorf("the Lease %s: %w", e.Describe(), s.Damage)
	}
	return nil
}

// May reports whether no other replica can have taken the Lease yet, by every clock there is: one stops while the
// machine is suspended, another is set by people.
func (e *Elector) May() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	return e.status.Leads && now.Sub(e.renewed) < e.cfg.RenewDeadline &&
		now.Round(0).Sub(e.renewed.Round(0)) < e.cfg.RenewDeadline &&
		time.Duration(boottime()-e.boottime) < e.cfg.RenewDeadline
}

func boottime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // a kernel before 2.6.39
	}
	return t.Nano()
}

// change changes the status.
func (e *Elector) change(change func(*Status)) (before Status) {
	e.mu.Lock()
	before = e.status
	change(&e.status)
	now := e.status
	e.mu.Unlock()
	if e.cfg.Changed != nil && (before.Leads != now.Leads || before.Holder != now.Holder || before.Term != now.Term) {
		e.cfg.Changed(before, now)
	}
	return before
}

// read notes how reading the Lease went.
func (e *Elector) read(err error) error {
	before := e.change(func(s *Status) {
		if s.ReadErr = err; err == nil || apierrors.IsNotFound(err) {
			s.ReadErr, s.Seen = nil, time.Now()
		}
	})
	if now := e.Status().ReadErr; isNews(before.ReadErr, now) {
		e.cfg.Log.Warn("cannot read the Lease, trying again", zap.String("lease", e.Describe()), zap.Error(now))
	}
	return err
}

// wrote notes how writing it went. That another replica was first is no failure.
func (e *Elector) wrote(err error) error {
	before := e.change(func(s *Status) {
		switch {
		case err == nil:
			s.Seen, s.Renewed, s.ReadErr, s.WriteErr = time.Now(), time.Now(), nil, nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		default:
			s.WriteErr = err
		}
	})
	if now := e.Status().WriteErr; isNews(before.WriteErr, now) {
		e.cfg.Log.Warn("cannot write the Lease, trying again", zap.String("lease", e.Describe()), zap.Error(now))
	}
	return err
}

// isNews reports whether an error is to be logged: it is another one than before.
func isNews(before, now error) bool {
	return now != nil && (before == nil || before.Error() != now.Error())
}

// stepBack ends the term: others may write now, or in a moment.
func (e *Elector) stepBack() {
	e.change(func(s *Status) { s.Leads, s.LeftOut = false, 0 })
	if !e.leads {
		return
	}
	e.leads = false
	lease, term := zap.String("lease", e.Describe()), zap.Uint64("term", e.Status().Term)
	if e.stopped() != nil {
		e.cfg.Log.Info("released the Lease", lease, term)
	} else {
		e.cfg.Log.Warn("no longer the leader", lease, term)
	}
	e.follow()
}

// follow gives the replica the positions that the leader has published.
func (e *Elector) follow() {
	if e.lease == nil {
		e.cfg.Replica.Begin(Term{})
		return
	}
	e.given = e.offer()
	e.cfg.Replica.Begin(Term{Published: e.published()})
}

// offer stands for what follow gives.
func (e *Elector) offer() string {
	if e.isRestored() {
		return ""
	}
	return e.lease.Annotations[positionsKey]
}

// isRestored reports whether the Lease is one that a backup has put back. Its positions are earlier than those that
// were written since, which the server does not have any more either.
func (e *Elector) isRestored() bool { return e.lease.ResourceVersion == e.restored }

// limit bounds a request: one that hangs must leave time for another, as in client-go's own locks.
func (e *Elector) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, max(e.cfg.RetryPeriod, e.cfg.RenewDeadline/2))
	stop := context.AfterFunc(e.released, cancel)
	return ctx, func() { stop(); cancel() }
}

// published returns the positions in the Lease. If somebody has damaged them, or put the Lease back, it returns the
// last ones that could be read, up to which lines were written; the leader's next renewal writes them again. A process
// that has read none knows only that there may be lines of any stream.
func (e *Elector) published() Positions {
	restored := e.isRestored()
	if restored && e.positions != nil {
		return e.positions
	}
	positions, err := decode(e.lease.Annotations[positionsKey])
	switch {
	case err != nil && e.positions == nil:
		e.positions = Positions{AnyOther: unnamed}
	case err != nil:
	case restored: // of a process that was not there then
		e.positions = positions.begun()
	default:
		e.positions = positions
	}
	e.damaged(err)
	return e.positions
}

// damaged notes why the positions in the Lease cannot be decoded, nil if they can. It logs each cause once in a term:
// the next renewal may write them again, and somebody damage them again.
func (e *Elector) damaged(err error) {
	d, is := errors.AsType[*damage](err)
	if is {
		err = fmt.Errorf("annotation %s: %w", positionsKey, err)
		if at := e.Status().Term; e.logged[d.cause] != at+1 {
			e.logged[d.cause] = at + 1
			e.cfg.Log.Error("cannot decode the positions in the Lease, continuing from earlier ones",
				zap.String("lease", e.Describe()), zap.Error(err))
		}
	}
	e.change(func(s *Status) { s.Damage = err })
}

// pack packs positions, as many as the Lease has room for. It logs when it begins to leave some out, and
// when it no longer does.
func (e *Elector) pack(positions Positions, lease *coordinationv1.Lease) string {
	packed, left := fit(positions, min(room(lease), e.room))
	before := e.change(func(s *Status) { s.LeftOut = left })
	switch {
	case left > 0 && before.LeftOut == 0:
		e.cfg.Log.Warn(
			"the Lease has no room for the positions of all streams: a replica that takes over lists the others again",
			zap.String("lease", e.Describe()), zap.Int("positions", len(positions)), zap.Int("leftOut", left))
	case left == 0 && before.LeftOut > 0:
		e.cfg.Log.Info("the Lease has the positions of all streams again", zap.String("lease", e.Describe()))
	}
	return packed
}

// Get reads the Lease. (resourcelock.Interface)
func (e *Elector) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	version := ""
	if e.lease != nil {
		version = e.lease.ResourceVersion
	}
	u, err := e.cfg.Leases.Get(ctx, e.cfg.Name, v1.GetOptions{})
	if err == nil {
		err = e.take(u)
	} else if apierrors.IsNotFound(err) {
		err = e.deleted(err)
	}
	if e.read(err) != nil {
		return nil, nil, err
	}
	holder := value(e.lease.Spec.HolderIdentity)
	before := e.change(func(s *Status) {
		if s.Holder, s.Term = holder, max(s.Term, term(e.lease)); holder != "" && e.lease.ResourceVersion != version {
			s.Renewed = time.Now()
			if holder != e.cfg.Identity {
				s.WriteErr = nil // that one can
			}
		}
	})
	switch {
	case holder == e.cfg.Identity:
		e.led[term(e.lease)] = true // also if the answer to the write that took the Lease was lost
	case before.Leads:
		e.stepBack() // the Lease was deleted, and another has made a new one
	case e.given != e.offer():
		e.follow()
	}
	e.save(e.saved.Led, e.Status().Term) // last, since it waits for the disk
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&e.lease.Spec)
	raw, err := json.Marshal(record)
	return record, raw, err
}

var errNoLease = errors.New("read Lease")

// errDeleted keeps a Lease that was deleted from being made again before the one who held it knows.
var errDeleted = errors.New("the Lease was deleted while another replica held it, waiting until that one has noticed")

// errNotHeld keeps client-go from releasing a Lease that another replica has taken: after its last renewals failed it
// reads the Lease and releases it, whoever the holder is.
var errNotHeld = errors.New("another replica holds the Lease")

// deleted returns err, by which the Lease is not there, or in its place why it must not be made now.
func (e *Elector) deleted(err error) error {
	s := e.Status()
	if e.lease != nil && s.Holder != "" && s.Holder != e.cfg.Identity && time.Since(s.Seen) < e.cfg.LeaseDuration {
		return errDeleted
	}
	return err
}

// Create makes the Lease. (resourcelock.Interface)
func (e *Elector) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	annotations := map[string]string{}
	if e.lease != nil { // it was deleted
		annotations[positionsKey] = e.lease.Annotations[positionsKey]
	}
	return e.write(record,
		&coordinationv1.Lease{ObjectMeta: v1.ObjectMeta{Name: e.cfg.Name, Namespace: e.cfg.Namespace,
			Annotations: annotations}},
		func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			u, err := e.cfg.Leases.Create(ctx, u, v1.CreateOptions{})
			if apierrors.IsNotFound(err) {
				err = fmt.Errorf("%w; create the namespace %s, or change leaderElection.leaseNamespace", err,
					e.cfg.Namespace)
			}
			return u, err
		})
}

// Update renews the Lease, takes it over or gives it up. (resourcelock.Interface)
func (e *Elector) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if s := e.Status(); s.Leads && record.HolderIdentity == e.cfg.Identity &&
		time.Since(e.renewed) < e.cfg.RetryPeriod-e.cfg.RetryPeriod/(2*looks) {
		return nil // it is not due yet
	}
	if record.HolderIdentity == "" && value(e.lease.Spec.HolderIdentity) != e.cfg.Identity {
		return errNotHeld
	}
	ctx, cancel := e.limit(ctx)
	defer cancel()
	return e.write(record, e.lease.DeepCopy(), func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return e.cfg.Leases.Update(ctx, u, v1.UpdateOptions{})
	})
}

// write writes the Lease as the record says, and with the positions of a leader; a new leader begins its term.
func (e *Elector) write(
	record resourcelock.LeaderElectionRecord, lease *coordinationv1.Lease,
	send func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) error {
	before := e.Status()
	var committed Positions
	if record.HolderIdentity != "" {
		if err := e.able(before.Leads); err != nil {
			return err
		}
	}
	if lease.Annotations == nil {
		lease.Annotations = make(map[string]string)
	}
	lease.APIVersion, lease.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	version, at := uint64(0), max(before.Term, term(lease))
	if before.Leads {
		committed, version = e.cfg.Replica.Positions()
		lease.Annotations[positionsKey] = e.pack(committed, lease)
	} else if record.HolderIdentity != "" {
		if at++; e.lease != nil && e.isRestored() {
			lease.Annotations[positionsKey] = e.pack(e.published(), lease)
		}
	}
	setTerm(lease, at)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(lease)
	if err != nil {
		return fmt.Errorf("encode Lease: %w", err)
	}
	asked, asleep := time.Now(), boottime()
	u, err := send(&unstructured.Unstructured{Object: content})
	if err == nil {
		err = e.take(u)
	}
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		e.room = max(minPacked, len(lease.Annotations[positionsKey])/2) // a Lease without positions is better than none
	}
	if e.wrote(err) != nil {
		return err
	}
	if before.Leads {
		e.cfg.Replica.MarkPublished(version)
		e.positions = committed
	}
	e.change(func(s *Status) {
		s.Holder, s.Term, s.Leads = record.HolderIdentity, at, record.HolderIdentity != ""
		e.renewed, e.boottime = asked, asleep
	})
	if before.Leads || record.HolderIdentity != "" {
		e.save(at, at)
	}
	switch {
	case record.HolderIdentity == "":
		e.stepBack()
	case !before.Leads:
		e.begin(at)
	}
	return nil
}

// able returns why this replica must not hold the Lease: it cannot write, or could not a moment ago, and another one
// shall have the time to take it.
func (e *Elector) able(leads bool) error {
	err, before := e.cfg.Able(), e.unable
	switch {
	case err != nil:
		e.unable, e.unableAt = err, time.Now()
	case leads || time.Since(e.unableAt) >= e.cfg.LeaseDuration:
		e.unable = nil
	}
	if before == nil && e.unable != nil {
		e.cfg.Log.Warn("this replica cannot write, leaving the Lease to another", zap.String("lease", e.Describe()),
			zap.Error(err))
	}
	return e.unable
}

// begin begins a term, after the positions that the Lease has of the leader before.
func (e *Elector) begin(term uint64) {
	published := e.published()
	e.cfg.Log.Info("became the leader", zap.String("lease", e.Describe()), zap.Uint64("term", term))
	e.leads, e.led[term] = true, true
	e.cfg.Replica.Begin(Term{May: e.May, Number: term, Published: published, Led: maps.Clone(e.led)})
}

// save keeps terms for the next process, which needs them if the Lease is deleted.
func (e *Elector) save(led, latest uint64) {
	terms := checkpoint.Terms{Led: max(led, e.saved.Led), Latest: max(latest, e.saved.Latest)}
	if terms == e.saved || e.cfg.SaveTerms == nil {
		return
	}
	err := e.cfg.SaveTerms(terms)
	if isNews(e.unsaved, err) {
		e.cfg.Log.Error("cannot save the term, trying again with the next request", zap.Error(err))
	}
	if e.unsaved = err; err == nil {
		e.saved = terms
	}
}

// take takes the Lease as the server has it.
func (e *Elector) take(u *unstructured.Unstructured) error {
	lease := new(coordinationv1.Lease)
	if u.GetName() != e.cfg.Name || u.GetResourceVersion() == "" { // a proxy's {}, say
		return fmt.Errorf("%w: the answer is not the Lease", errNoLease)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, lease); err != nil {
		return fmt.Errorf("decode Lease: %w", err)
	}
	if e.lease != nil && line.Later(e.lease.ResourceVersion, lease.ResourceVersion) || term(lease) < e.Status().Term {
		e.restored = lease.ResourceVersion
	}
	e.lease = lease
	return nil
}

// RecordEvent does nothing. (resourcelock.Interface)
func (e *Elector) RecordEvent(string) {}

// Identity is that of this process. (resourcelock.Interface)
func (e *Elector) Identity() string { return e.cfg.Identity }

// Describe names the Lease. (resourcelock.Interface)
func (e *Elector) Describe() string { return e.cfg.Namespace + "/" + e.cfg.Name }

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
