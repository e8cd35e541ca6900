"""What the photo filter can be set to; apart from it, because pictures are made with torch."""

SPACE = {
    "exposure": {"low": -1.0, "high": 1.0},
    "contrast": {"low": 0.5, "high": 1.8},
    "saturation": {"low": 0.0, "high": 2.0},
    "warmth": {"low": -1.0, "high": 1.0},
    "sharpness": {"low": 0.0, "high": 2.5},
    "vignette": {"low": 0.0, "high": 1.0},
}
