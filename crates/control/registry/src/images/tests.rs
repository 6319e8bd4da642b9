use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

fn artifact(number: u32) -> Artifact {
    Artifact::of(test_image(number))
}

fn reference(tag: &str) -> Reference {
    format!("r.example/edge/echo:{tag}").parse().expect("a reference")
}

/// A folder with room for so many of the small images.
fn images(many: u64) -> (TempDir, Images) {
    let folder = tempfile::tempdir().expect("a folder");
    let images = open(&folder, many).expect("opened");
    (folder, images)
}

fn open(folder: &TempDir, many: u64) -> Result<Images, ImagesError> {
    let one = artifact(1);
    let bytes = one.manifest.len() + one.config.len() + one.image.wasm().len();
    Images::open(&folder.path().join("images"), many * bytes as u64)
}

fn names(images: &Images) -> Vec<String> {
    images.list().expect("listed").into_iter().map(|kept| kept.reference).collect()
}

fn blobs(folder: &TempDir) -> usize {
    fs::read_dir(folder.path().join("images/blobs/sha256")).expect("a folder").count()
}

/// As if it was used so many seconds ago.
fn used_before(images: &Images, digest: Digest, seconds: u64) {
    let file = fs::OpenOptions::new().append(true).open(images.folder.blob_path(digest)).expect("opened");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("set");
}

#[test]
fn what_is_added_is_found_also_by_the_next() {
    let (folder, images) = images(3);
    let (one, begin) = (artifact(1), SystemTime::now() - Duration::from_secs(1));
    assert_eq!(images.find(&reference("a")).expect("asked"), None);
    images.add(&reference("a"), &one).expect("added");
    let again = open(&folder, 3).expect("opened");
    assert_eq!(again.find(&reference("a")).expect("asked"), Some(one.digest));
    assert_eq!(again.find(&reference("b").pinned(one.digest)).expect("asked"), Some(one.digest));
    assert_eq!(again.get(one.digest).expect("sound"), Some(one.image.clone()));
    assert_eq!(again.get(Digest::of(one.image.wasm())).expect("no manifest"), None);
    let [kept] = &again.list().expect("listed")[..] else { panic!("one") };
    assert_eq!(
        (kept.reference.as_str(), kept.digest, kept.pinned),
        ("r.example/edge/echo:a", one.digest, false)
    );
    assert_eq!(kept.bytes as usize, one.manifest.len() + one.config.len() + one.image.wasm().len());
    assert!(kept.stored >= begin && kept.used >= begin);
    assert!(
        again.forget(&reference("a")).expect("forgotten") && !again.forget(&reference("a")).expect("gone")
    );
    assert_eq!((names(&again), blobs(&folder)), (Vec::<String>::new(), 0));
}

#[test]
fn what_a_tag_meant_before_stays_under_its_digest() {
    let (_folder, images) = images(3);
    images.add(&reference("a"), &artifact(1)).expect("added");
    images.add(&reference("a"), &artifact(2)).expect("added");
    assert_eq!(images.find(&reference("a")).expect("asked"), Some(artifact(2).digest));
    let before = format!("r.example/edge/echo@{}", artifact(1).digest);
    assert_eq!(names(&images), ["r.example/edge/echo:a".to_owned(), before]);
    assert!(images.get(artifact(1).digest).expect("sound").is_some());
}

#[test]
fn the_longest_unused_leave_and_the_pinned_stay() {
    let (folder, images) = images(3);
    for number in 1..=3 {
        images.add(&reference(&number.to_string()), &artifact(number)).expect("added");
        used_before(&images, artifact(number).digest, 100 - u64::from(number));
    }
    // The first is read, the second is the longest unused but pinned: the third leaves.
    images.get(artifact(1).digest).expect("sound");
    images.pin("daemon", &[artifact(2).digest, Digest::of(b"not there yet")]).expect("pinned");
    assert_eq!(
        images.list().expect("listed").iter().map(|kept| kept.pinned).collect::<Vec<_>>(),
        [false, true, false]
    );
    images.add(&reference("4"), &artifact(4)).expect("added");
    assert_eq!(names(&images), ["1", "2", "4"].map(|tag| format!("r.example/edge/echo:{tag}")));
    assert_eq!(blobs(&folder), 9);
    // Pins are on disk, and of an owner: another one does not take them away.
    let again = open(&folder, 3).expect("opened");
    again.pin("operator", &[artifact(1).digest, artifact(4).digest]).expect("pinned");
    let error = again.add(&reference("5"), &artifact(5)).expect_err("no room");
    assert!(matches!(error, ImagesError::Full { pinned, limit, .. } if pinned == limit), "{error}");
    assert_eq!(names(&again).len(), 3);
    again.pin("daemon", &[]).expect("unpinned");
    again.add(&reference("5"), &artifact(5)).expect("added");
    assert_eq!(names(&again), ["1", "4", "5"].map(|tag| format!("r.example/edge/echo:{tag}")));
    assert!(matches!(again.pin("../x", &[]), Err(ImagesError::Owner { .. })));
}

#[test]
fn one_that_is_larger_than_the_folder_may_be_is_refused_and_nothing_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    let images = Images::open(&folder.path().join("images"), 100).expect("opened");
    let error = images.add(&reference("1"), &artifact(1)).expect_err("no room").to_string();
    assert!(error.contains("no room for") && error.contains("0 bytes of 100 are pinned"), "{error}");
    assert_eq!(blobs(&folder), 0);
}

#[test]
fn what_a_crash_left_goes_at_the_next_opening() {
    let (folder, images) = images(5);
    images.add(&reference("1"), &artifact(1)).expect("added");
    images.add(&reference("2"), &artifact(2)).expect("added");
    let root = folder.path().join("images");
    fs::write(root.join("unfinished/77.0"), b"half").expect("written");
    images.folder.put_blob(Digest::of(b"unnamed"), b"unnamed").expect("written");
    fs::write(root.join("blobs/sha256/junk"), b"junk").expect("written");
    // An artifact without its layer is none.
    fs::remove_file(images.folder.blob_path(Digest::of(artifact(2).image.wasm()))).expect("removed");
    let images = open(&folder, 5).expect("opened");
    assert_eq!(names(&images), ["r.example/edge/echo:1"]);
    assert_eq!(blobs(&folder), 3);
    assert_eq!(fs::read_dir(root.join("unfinished")).expect("a folder").count(), 0);
    assert!(images.get(artifact(1).digest).expect("sound").is_some());
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let (folder, _) = images(1);
    let root = folder.path().join("images");
    assert_eq!(fs::metadata(&root).expect("there").permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o750)).expect("set");
    let error = open(&folder, 1).expect_err("not private").to_string();
    assert!(error.contains("mode 750") && error.contains("chmod 700"), "{error}");
}

#[test]
fn an_index_that_is_none_is_told_and_not_thrown_away() {
    let (folder, images) = images(2);
    images.add(&reference("1"), &artifact(1)).expect("added");
    let index = folder.path().join("images/index.json");
    for text in ["", "[]", "{\"schemaVersion\":2,\"mediaType\":\"x\",\"manifests\":[{}]}"] {
        fs::write(&index, text).expect("written");
        let error = open(&folder, 2).expect_err("no index").to_string();
        assert!(error.contains("index.json") && error.contains("remove the file"), "{error}");
        assert_eq!(blobs(&folder), 3);
    }
    fs::remove_file(&index).expect("removed");
    assert_eq!(names(&open(&folder, 2).expect("opened")).len(), 0);
}

#[test]
fn changes_wait_for_each_other_and_not_for_ever() {
    let (folder, images) = images(50);
    let lock = images.folder.lock(LOCK_WAIT).expect("locked");
    let error = images.folder.lock(Duration::from_millis(30)).expect_err("held");
    assert!(matches!(error, ImagesError::Locked { .. }), "{error}");
    drop(lock);
    // Two that opened the folder, each with several threads, lose nothing of each other's.
    let other = open(&folder, 50).expect("opened");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let images = if number % 2 == 0 { &images } else { &other };
            scope.spawn(move || {
                images.add(&reference(&number.to_string()), &artifact(number)).expect("added")
            });
        }
    });
    assert_eq!(names(&images).len(), 8);
    assert!((0..8).all(|number| images.get(artifact(number).digest).expect("sound").is_some()));
}

#[test]
fn single_images_stay_as_long_as_they_are_pinned() {
    let (folder, images) = images(10);
    let image = artifact(1).image;
    let digest = Digest::from(image.digest());
    images.pin("daemon", &[digest]).expect("pinned");
    assert_eq!(images.keep(&image).expect("kept"), digest);
    // Once more it is the same.
    assert_eq!(images.keep(&image).expect("kept"), digest);
    assert_eq!((blobs(&folder), names(&images).len()), (1, 0));
    assert_eq!(images.get_single(digest).expect("sound"), Some(image.clone()));
    assert!(images.get(digest).expect("no manifest").is_none());
    assert!(!images.has_artifact(digest).expect("looked"));
    // Others come, and the folder is opened again.
    images.add(&reference("2"), &artifact(2)).expect("added");
    assert!(images.has_artifact(artifact(2).digest).expect("looked"));
    let images = open(&folder, 10).expect("opened");
    assert_eq!(images.get_single(digest).expect("sound"), Some(image.clone()));
    // What is damaged is told.
    fs::write(images.folder.blob_path(digest), b"rotten").expect("written");
    assert!(matches!(images.get_single(digest), Err(ImagesError::Damaged { .. })));
    images.keep(&image).expect("mended");
    assert!(images.get_single(digest).expect("sound").is_some());
    images.pin("daemon", &[]).expect("pinned");
    images.add(&reference("3"), &artifact(3)).expect("added");
    assert!(!images.has(digest).expect("looked"));
}

#[test]
fn a_single_image_comes_in_when_others_can_leave_and_not_otherwise() {
    let (_folder, images) = images(2);
    images.add(&reference("1"), &artifact(1)).expect("added");
    images.add(&reference("2"), &artifact(2)).expect("added");
    used_before(&images, artifact(1).digest, 60);
    let image = artifact(3).image;
    let digest = Digest::from(image.digest());
    images.pin("daemon", &[digest]).expect("pinned");
    images.keep(&image).expect("kept");
    assert_eq!(names(&images), ["r.example/edge/echo:2"]);
    images.pin("daemon", &[digest, artifact(2).digest]).expect("pinned");
    let more = artifact(4);
    let error = images.add(&reference("4"), &more).expect_err("full");
    assert!(matches!(error, ImagesError::Full { .. }), "{error}");
}

#[test]
fn small_images_that_nothing_needs_are_only_so_many() {
    let (_folder, mut images) = images(100);
    images.spare = 4;
    for number in 0..7 {
        let artifact = artifact(number);
        images.add(&reference(&number.to_string()), &artifact).expect("added");
        if number < 2 {
            used_before(&images, artifact.digest, 100);
        }
    }
    let there = |number: u32| images.has(artifact(number).digest).expect("asked");
    assert!(!there(0) && !there(1) && there(2) && there(6));
}

#[test]
fn what_comes_for_some_leaves_room_for_what_may_not_leave() {
    let (_folder, images) = images(4);
    let pinned: Vec<Digest> = (1..=2).map(|number| artifact(number).digest).collect();
    images.pin("a", &pinned).expect("pinned");
    for number in 1..=3 {
        images.add(&reference(&number.to_string()), &artifact(number)).expect("added");
    }
    let bytes = images.bytes_of(&pinned.iter().copied().collect()).expect("asked");
    // The configuration of all of them is the same two bytes.
    assert!(bytes > images.limit() / 2 - 8 && bytes <= images.limit() / 2, "{bytes}");
    let most = images.limit() / 2;
    let error = images.add_within(&reference("4"), &artifact(4), most).expect_err("no room").to_string();
    assert!(error.contains(&format!("{bytes} bytes of {most} are pinned")), "{error}");
    images.add_within(&reference("4"), &artifact(4), images.limit() * 3 / 4).expect("added");
    assert!(images.has(artifact(3).digest).expect("asked"), "what is not pinned had room");
}
