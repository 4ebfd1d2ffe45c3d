"""Texts of the tab "Custom classes" that the browser composes."""

TEXTS = {
    # The editor
    "class_name": "Class name",
    "add_class": "Add class",
    "add_folder": "Add folder (class/image)",
    "add_zip": "Add zip file (class/image)",
    "add_examples": "Add example classes",
    "undo": "Undo",
    "images_one": "{count} image",
    "images_other": "{count} images",
    "add_images": "Add images",
    "add_images_of": "Add images of {name}",
    "remove_image": "Remove image {image} of {name}",
    "remove_class": "Remove class",
    "too_large": "Files larger than {megabytes} MB were skipped.",
    "too_many_one": "The folder has {count} file, and the limit is {limit}. Choose a smaller "
    "folder.",
    "too_many_other": "The folder has {count} files, and the limit is {limit}. Choose a smaller "
    "folder.",
    "uploading": "Uploading file {file} of {files} …",
    "upload_failed": "The upload failed: the server does not respond, or its disk is full. No "
    "files were added. Try again later.",
    # The camera
    "open_camera": "Open camera",
    "take_photos": "Hold to take photos",
    "photos_one": "{count} photo taken",
    "photos_other": "{count} photos taken",
    "close_camera": "Close camera",
    # The models
    "train": "Train classifier",
    "percent": "percent",
    "cancelled": "Training was cancelled. No new classifier was saved.",
    "save": "Save the model (.zip)",
    "publish": "Publish to all users",
    "unpublish": "Unpublish",
    "fine_tune": "Fine-tune the whole model",
    "audience": "Who may see the fine-tuned model?",
    "only_user": "Only you",
    "only_user_help": "The model appears in every tab, but only for you. The server deletes the "
    "model and your images one hour after your last use of this tab.",
    "all_users": "All users of this page",
    "all_users_help": "All users see the training run and its results, and can use the model. The "
    "server keeps your images in the run folder until someone deletes the run in the tab Train.",
    "start_fine_tuning": "Start fine-tuning",
    "fine_tuning": "Fine-tuning",
    "fine_tuning_progress": "Fine-tuning: {progress}",
    "cancel_fine_tuning": "Cancel fine-tuning",
    "delete_fine_tuned": "Delete the fine-tuned model",
}
