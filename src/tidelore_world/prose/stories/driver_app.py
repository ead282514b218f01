"""Decision stories of the mobile driver app: offline work, battery, photos, and gates without a signal.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

DRIVER_APP: tuple[Story, ...] = (
    Story(
        slug="driver-offline-queue",
        component="driver-app",
        labels=("driver-app", "mobile", "offline"),
        titles=(
            "Gate confirmations are lost without a signal",
            "Offline queue drops actions after an app restart",
            "Drivers at {port} confirm twice because the first tap seems lost",
        ),
        changes=(
            "Persist driver actions before showing them as done",
            "driver-app: durable action queue",
            "Write actions to SQLite first",
        ),
        problems=(
            (
                "There is no signal behind the stacks in {port}. A confirmation lives in memory until it "
                "is sent, and Android kills the app first. {small} confirmations were lost last week."
            ),
            ("Drivers tap twice to be sure, and now there are two gate-ins for {pct} % of the visits in {port}."),
            (
                "{whose} dispatchers call drivers to ask whether they have confirmed. That is what the "
                "app was meant to end."
            ),
        ),
        options=(
            Option(
                "retry in memory for longer",
                "no migration",
                "does not survive what kills it",
            ),
            Option(
                "a durable queue on the device, with an id for each action",
                "survives restarts, and the server drops repeats",
                "a schema on {big} phones",
            ),
            Option(
                "a block of the screen until it is sent",
                "the driver knows",
                "drivers stand at the gate and cannot go on",
            ),
        ),
        chosen=1,
        objection=(
            "A queue that lives for days will send a confirmation when it no longer matters, and undo "
            "what the dispatcher fixed by hand."
        ),
        answer=(
            "Each action carries the time of the tap and expires after twelve hours; the server refuses "
            "one that is older than a correction."
        ),
        question="What does the driver see while it is queued?",
        reply=(
            "The action as done, with a small clock. In the test, {small} of {small} drivers understood "
            "it without a word."
        ),
        measure=(
            "With {days} days in {port}: lost confirmations from {small} a day to zero, double taps down by {pct} %."
        ),
        decision="write every driver action to a durable queue with its own id before it is shown as done",
        reason="what the screen says must be true after the battery dies",
        spots=(
            Spot("apps/driver/src/queue/actionQueue.ts", 22, 130),
            Spot("apps/driver/src/queue/schema.ts", 8, 41),
            Spot("services/gateway/internal/driver/actions.go", 55, 102),
        ),
        code=(
            "```ts\n"
            'await db.run("INSERT INTO actions (id, kind, tapped_at, payload) VALUES (?, ?, ?, ?)", row);\n'
            "ui.markDone(row.id); // only after the row is on disk\n"
            "```"
        ),
    ),
    Story(
        slug="driver-location-battery",
        component="driver-app",
        labels=("driver-app", "battery", "tracking"),
        titles=(
            "Driver app drains {pct} % of the battery in a shift",
            "Location updates: how often is often enough?",
            "Drivers of {customer} switch the app off to save battery",
        ),
        changes=(
            "Sample location by activity and distance to the gate",
            "driver-app: adaptive location sampling",
            "Reduce GPS use between stops",
        ),
        problems=(
            (
                "We ask for a precise position every five seconds. On the phones of {customer} that is "
                "{pct} % of the battery in a shift, and drivers close the app."
            ),
            (
                "Nine of ten positions are from a motorway where nothing is decided. The one at the gate "
                "matters, and by then the phone is at 3 %."
            ),
            ("Since {version} the share of trips with a position in the last kilometre fell by {pct} %."),
        ),
        options=(
            Option(
                "one position a minute",
                "half of the energy",
                "too coarse at the gate",
            ),
            Option(
                "sampling by activity and by distance to the next stop",
                "precise where it matters, asleep elsewhere",
                "two platforms behave differently",
            ),
            Option(
                "the geofences of the operating system",
                "nearly free",
                "{small} sites at most on one platform, and minutes late",
            ),
        ),
        chosen=1,
        objection=(
            'Adaptive means that a support person cannot say how often a phone reports. "It depends" is a bad answer.'
        ),
        answer=(
            "The app shows its present mode, and support sees the same word: far, near or gate. There are only three."
        ),
        question="What about trucks that wait for hours in front of {port}?",
        reply=(
            "Standing still for three minutes switches to one position every two minutes, and motion "
            "switches back at once."
        ),
        measure=("On {small} test phones: 31 % down to 9 % of battery in a shift, arrival detected within {small} s."),
        decision=("sample location in three modes (far, near, gate) chosen by activity and distance to the next stop"),
        reason="a precise position is worth its energy only where somebody acts on it",
        spots=(
            Spot("apps/driver/src/location/modes.ts", 14, 96),
            Spot("apps/driver/android/app/src/main/java/com/harborline/location/Sampler.kt", 30, 118),
        ),
    ),
    Story(
        slug="driver-photo-upload",
        component="driver-app",
        labels=("driver-app", "mobile", "storage"),
        titles=(
            "Damage photos fail to upload from {port}",
            "Photo uploads restart from zero on a bad network",
            "{pct} % of damage photos never arrive",
        ),
        changes=(
            "Upload photos in resumable chunks",
            "driver-app: resumable uploads with a size limit",
            "Compress and resume damage photos",
        ),
        problems=(
            (
                "A photo of 12 MB over a weak network restarts from zero after each break. {pct} % never "
                "arrive, and {customer} loses claims because of it."
            ),
            (
                "Drivers in {port} wait in front of the app for {small} minutes until the photo is gone. "
                "They have stopped taking photos."
            ),
            ("Our object store in {region} has {big} multipart uploads that were begun and never finished."),
        ),
        options=(
            Option(
                "smaller photos only",
                "simple, and most of the effect",
                "claims need details that 1 MB does not show",
            ),
            Option(
                "resumable chunks of 256 KB, the small version first",
                "a usable photo in seconds, the full one when the network allows",
                "a new endpoint, and state on the server",
            ),
            Option(
                "upload over Wi-Fi only",
                "free for the driver",
                "the photo arrives in the evening, after the container has left",
            ),
        ),
        chosen=1,
        objection="Resumable uploads are a protocol of their own. We would maintain it for one feature.",
        answer=(
            "We use the existing open protocol and a library of 300 lines; proof-of-delivery scans will "
            "use the same endpoint."
        ),
        question="Who deletes uploads that are never finished?",
        reply="A bucket rule after seven days, and the app drops its side after five.",
        measure=(
            "In a test at {port} with 8 % packet loss: arrival rate from 71 to 99.4 %, the first usable "
            "version after {small} s."
        ),
        decision=("upload photos in resumable chunks, with a small version first and the full one in the background"),
        reason="the claim needs some photo now and the good one eventually",
        spots=(
            Spot("apps/driver/src/photos/upload.ts", 40, 144),
            Spot("services/gateway/internal/uploads/resume.go", 18, 90),
        ),
    ),
    Story(
        slug="driver-app-min-version",
        component="driver-app",
        labels=("driver-app", "release", "product"),
        titles=(
            "Old app versions break when the API changes",
            "How long do we support old driver apps?",
            "{pct} % of drivers still use an app older than {version}",
        ),
        changes=(
            "Announce and enforce a minimum app version",
            "driver-app: minimum version with a grace period",
            "Serve a minimum version to the driver app",
        ),
        problems=(
            (
                "{pct} % of the phones run an app from before {version}. Each API change has to work for "
                "all of them, and nobody knows which they are."
            ),
            (
                "We removed a field that no current app reads, and {small} drivers of {customer} could "
                "not start their shift."
            ),
            (
                "Subcontractors share phones that are updated by nobody. They are our most frequent "
                "support case in {region}."
            ),
        ),
        options=(
            Option(
                "support for ever",
                "nobody is locked out",
                "each field lives for ever, too",
            ),
            Option(
                "a minimum version with {days} days of notice in the app",
                "a date that everybody can plan with",
                "some drivers are stopped on that date",
            ),
            Option(
                "forced updates at once",
                "one version only",
                "a driver at the gate cannot download 80 MB",
            ),
        ),
        chosen=1,
        objection=(
            "Locking a driver out at a gate is the worst thing that this app can do. I do not want to be "
            "on call that day."
        ),
        answer=(
            "A trip that has begun is never stopped. The lock applies at the start of a shift, and "
            "dispatch sees the list two weeks ahead."
        ),
        question="Which calls still work for an app below the minimum?",
        reply="Finishing the present trip, photos and the emergency number.",
        measure=("With the notice alone, the share of old apps in the trial fell from {pct} to 2.1 % before the date."),
        decision=(
            "enforce a minimum app version at the start of a shift, announced in the app ahead of time, "
            "and never during a trip"
        ),
        reason="a date that is known to all is kinder than a break that nobody expected",
        spots=(
            Spot("apps/driver/src/version/gate.ts", 11, 68),
            Spot("services/gateway/internal/driver/version.go", 20, 61),
        ),
    ),
    Story(
        slug="driver-gate-codes",
        component="driver-app",
        labels=("driver-app", "security", "product"),
        titles=(
            "QR codes at the gate of {port} can be reused",
            "Gate pass works without a signal or is secure, not both?",
            "Screenshots of gate passes are passed around",
        ),
        changes=(
            "Sign gate passes and let them rotate on the device",
            "driver-app: rotating signed gate codes",
            "Verify gate passes offline at the terminal",
        ),
        problems=(
            ("A gate pass is a static QR code. In {port} the same screenshot was used by {small} trucks on one day."),
            ("An online check would stop it, but the readers in {port} are offline {pct} % of the time."),
            (
                "{customer} lost a container to somebody with a photo of a pass. The police asked us how "
                "the code is checked."
            ),
        ),
        options=(
            Option(
                "an online check for each scan",
                "can be revoked at once",
                "the gate stops when the network does",
            ),
            Option(
                "a signed code that changes every 30 seconds",
                "verified offline, and a screenshot is dead in a minute",
                "needs a roughly correct clock on both sides",
            ),
            Option(
                "the driver's identity card at a counter",
                "hard to forge",
                "{small} minutes for each truck",
            ),
        ),
        chosen=1,
        objection="Phones have wrong clocks. If the code depends on time, honest drivers are refused.",
        answer=(
            "The reader accepts one step before and after, and the app corrects its clock at each sync; "
            "the worst phone in the trial was off by 11 s."
        ),
        question="How is a lost phone blocked?",
        reply=(
            "The reader fetches a small block list whenever it is online, and a pass is valid for six hours at most."
        ),
        measure="{big} scans in the trial: three false refusals, median scan {fast} ms, no reuse.",
        decision=(
            "sign gate passes, rotate the code every 30 seconds on the device, and verify it offline at the reader"
        ),
        reason="the gate must work without a network, and time is the one thing both sides share",
        spots=(
            Spot("apps/driver/src/gate/passCode.ts", 18, 85),
            Spot("services/gateway/internal/gatepass/sign.go", 27, 94),
        ),
    ),
)
